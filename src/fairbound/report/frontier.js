"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const slider = document.getElementById("bound"), by = (id) => document.getElementById(id);
  const percent = (v) => (v === null ? "–" : (100 * v).toFixed(1) + " %");
  const words = { met: "bound met", insufficient: "not enough evidence", violated: "bound violated" };
  const dashes = ["", "6 2.5", "2 2", "8 2.5 2 2.5", "4 1.5", "1 2.5"];
  const names = Object.keys(data[data.length - 1].groups);

  const cells = (tag, texts) => {
    const row = document.createElement("tr");
    texts.forEach((text, i) => {
      const cell = document.createElement(i ? tag : "th");
      if (!i) cell.scope = "row";
      cell.textContent = text;
      row.append(cell);
    });
    return row;
  };

  const curve = (points, i) => {
    const line = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
    line.setAttribute("points", points.map(([x, y]) => 10 + 200 * x + "," + (210 - 200 * y)).join(" "));
    line.setAttribute("fill", "none");
    line.setAttribute("stroke", "var(--s" + ((i % 6) + 1) + ")");
    line.setAttribute("stroke-width", "2");
    line.setAttribute("stroke-dasharray", dashes[i % 6]);
    return line;
  };

  const show = () => {
    const one = data[Number(slider.value)];
    const bound = one.bound === null ? "no bound" : one.text;
    slider.setAttribute("aria-valuetext", bound);
    by("stated").textContent = bound;
    by("accuracy").textContent = percent(one.accuracy);
    by("measured").textContent = one.value === null ? "–" : one.value.toFixed(4);
    by("interval").textContent = one.lower === null || one.upper === null ? "–" : one.lower.toFixed(4) + " to " + one.upper.toFixed(4);
    by("changed").textContent = one.changed.toLocaleString("en") + " of " + one.rows.toLocaleString("en");
    const made = one.certificate;
    by("certificate").textContent = made === null ? "nothing to certify" : words[made.verdict] +
      (made.verdict === "met" ? ", by the model trained under " + made.trained_under + " (accuracy " + percent(made.accuracy) + ")" : "");
    by("rates").replaceChildren(...names.map((name) => cells("td", [name, ...Object.values(one.groups[name] || {}).map(percent)])));
    by("curves").replaceChildren(...names.map((name, i) => curve(one.roc[name] || [], i)));
    by("curves").parentNode.setAttribute("aria-label", "ROC curves of " + names.join(", ") + " under " + bound);
  };

  slider.addEventListener("input", show);
  show();
})();
