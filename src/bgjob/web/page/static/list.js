import { element, framed } from "./element.js";
import { ordered } from "./jobs.js";
import { title } from "./words.js";

export function open(place, app) {
  const rows = element("ul", {});
  place.append(rows);
  const draw = framed(() => rows.replaceChildren(...ordered(app.jobs.rows.values()).slice(0, 50).map((row) =>
    element("li", {}, element("a", { href: `/?job=${row.id}` }, title(row)), " ", row.status))));
  const end = app.jobs.onchange(draw);
  draw();
  return { close: end };
}
