// What a job asks, and the controls to answer it right there.

import { element } from "./element.js";
import { post } from "./wire.js";
import { title } from "./words.js";

const MOST_BUTTONS = 12,
  AGAIN_MS = 600;
const CHOICE = "[^[\\]()<>/|,]{1,20}";
const CHOICES = new RegExp(`[[(<]\\s*(${CHOICE}(?:[/|,]\\[?${CHOICE}\\]?)+)\\s*[\\])>]`, "g");
const RANGE = /[[(]\s*(\d)\s*(?:-|–|\.\.|to)\s*(\d)\s*[\])]/;
const ONE = /[[(]\s*([yYnN])\s*[\])]\s*[:?]?\s*$/;
const ENTER = /\b(?:press|hit|push)\b.{0,12}\b(?:enter|return|any key|a key)\b|\bcontinue\b\s*[.…]*\s*$/i;
const DEFAULT = /[[(]([^[\]()]{1,40})[\])]\s*[:?>]?\s*$/;
const SECRET =
  /pass\s?(?:word|phrase|code)|\bPIN\b|\bsecret\b|\bOTP\b|verification code|(?:api|access|auth\w*)[ _-]?(?:key|token)/i;

export const isSecret = (prompt) => SECRET.test(lastLine(prompt));

const lastLine = (text) => (text ?? "").trimEnd().split("\n").at(-1);

// Answers that the prompt itself names: [{text, label}]. [y/N] gives y and n; (1-3) gives 1, 2, 3.
export function likelyAnswers(prompt) {
  const line = lastLine(prompt);
  if (!line || isSecret(prompt)) return [];
  const named = choicesIn(line) ?? rangeIn(line) ?? (ONE.test(line) ? ["y", "n"] : null);
  if (named) return named.map((text) => ({ text, label: text }));
  if (ENTER.test(line)) return [{ text: "", label: "Enter" }];
  const usual = line.match(DEFAULT)?.[1].replace(/^default:?\s*/i, "");
  return usual ? [{ text: "", label: `Enter: ${usual}` }] : [];
}

function choicesIn(line) {
  const last = [...line.matchAll(CHOICES)].at(-1)?.[1];
  const choices = last
    ?.split(/[/|,]/)
    .map((one) => one.replace(/[[\]'"]/g, "").trim())
    .filter(Boolean);
  const isOf =
    choices?.length > 1 && choices.length <= MOST_BUTTONS && !choices.every((one) => /^\d+$/.test(one));
  return isOf ? choices.map(written) : null;
}

function rangeIn(line) {
  const [, from, to] = line.match(RANGE) ?? [];
  return from < to ? Array.from({ length: to - from + 1 }, (_, at) => String(Number(from) + at)) : null;
}

// A capital letter marks the default: [y/N]. Typed is the small one, unless all are capitals: [A/R/I].
function written(choice, _, all) {
  const areCapitals = all.every((one) => one === one.toUpperCase());
  return areCapitals || !/^(.|yes|no)$/i.test(choice) ? choice : choice.toLowerCase();
}

// For a row that asks. `update(row)` when it has changed; `focus()` puts the cursor into the field.
export class Answer {
  constructor(app, { more = () => [], isQuiet = false } = {}) {
    this.app = app;
    this.more = more; // further buttons for this row
    this.isQuiet = isQuiet; // only the line to type, without what is asked
    this.node = element("div", { class: "answer" });
    this.shown = null;
  }

  update(row) {
    const key = this.isQuiet ? row.id : `${row.id} ${row.prompt ?? ""}`;
    this.row = row;
    if (this.shown === key) return;
    this.shown = key;
    const before = this.field?.value ?? "",
      hadFocus = this.field && document.activeElement === this.field;
    this.field = this.newField(row);
    if (this.field.type === "text") this.field.value = before;
    this.node.replaceChildren(...(this.isQuiet ? [] : [this.question(row)]), this.form(row));
    if (hadFocus) this.field.focus({ preventScroll: true });
  }

  question(row) {
    return row.prompt
      ? element("pre", { class: "prompt" }, row.prompt)
      : element("p", { class: "prompt quiet" }, "It reads its input.");
  }

  newField(row) {
    const isMasked = !this.isQuiet && isSecret(row.prompt),
      name = isMasked ? "Password" : this.isQuiet ? "A line to type" : "Answer";
    return element("input", {
      type: isMasked ? "password" : "text",
      autocomplete: "off",
      autocapitalize: "off",
      spellcheck: "false",
      class: "mono",
      placeholder: name,
      "aria-label": `${name} for ${title(row)}`,
    });
  }

  // Something is typed, or about to be.
  get isUsed() {
    return this.field.value !== "" || document.activeElement === this.field;
  }

  form(row) {
    if (!this.app.may("run")) return element("p", { class: "quiet" }, "This login may not answer.");
    const buttons = (this.isQuiet ? [] : likelyAnswers(row.prompt)).map(({ text, label }) =>
      element(
        "button",
        {
          type: "button",
          class: "likely",
          "aria-label": `Answer ${label} to ${title(row)}`,
          onclick: () => this.send({ text }),
        },
        label,
      ),
    );
    return element(
      "form",
      {
        onsubmit: (event) => {
          event.preventDefault();
          this.send({ text: this.field.value });
        },
      },
      ...buttons,
      this.field,
      element("button", { class: "main" }, "Send"),
      this.isQuiet &&
        element(
          "button",
          {
            type: "button",
            title: "As ctrl-d does in a terminal",
            onclick: () => this.send({ enter: false, eof: true }),
          },
          "End the input",
        ),
      ...this.more(row),
    );
  }

  // A second click on the same button would answer the next question.
  async send(answer) {
    const form = this.node.querySelector("form"),
      hadFocus = form.contains(document.activeElement);
    if (form.inert) return;
    form.inert = true;
    try {
      await post("/api/answer", { job: this.row.id, enter: true, ...answer });
      this.field.value = "";
      this.app.say(answer.eof ? `The input of ${title(this.row)} is closed.` : `Sent to ${title(this.row)}.`);
    } catch (problem) {
      this.app.fail(problem);
    }
    setTimeout(() => {
      form.inert = false;
      if (hadFocus && document.activeElement === document.body) this.focus();
    }, AGAIN_MS);
  }

  focus() {
    this.field?.focus({ preventScroll: true });
  }
}
