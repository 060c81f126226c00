// What a job asks, and the controls to answer it right there.

import { element } from "./element.js";
import { post } from "./wire.js";
import { title } from "./words.js";

const MOST_BUTTONS = 12;
// A second click on the same button would answer the next question.
const AGAIN_MS = 600;
const CHOICE = "[^[\\]()<>/|,]{1,20}";
const CHOICES = new RegExp(`[[(<]\\s*(${CHOICE}(?:[/|,]\\[?${CHOICE}\\]?)+)\\s*[\\])>]`, "g");
const RANGE = /[[(]\s*(\d)\s*(?:-|–|\.\.|to)\s*(\d)\s*[\])]/;
const ONE = /[[(]\s*([yYnN])\s*[\])]\s*[:?]?\s*$/;
const ENTER = /\b(?:press|hit|push)\b.{0,12}\b(?:enter|return|any key|a key)\b|\bcontinue\b\s*[.…]*\s*$/i;
const DEFAULT = /[[(]([^[\]()]{1,40})[\])]\s*[:?>]?\s*$/;
const SECRETS = ["pass\\s?(?:word|phrase|code)", "\\b(?:PIN|OTP|secret)\\b", "verification code"];
const SECRET = new RegExp([...SECRETS, "(?:api|access|auth\\w*)[ _-]?(?:key|token)"].join("|"), "i");

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

// What a row asks, if it does, with a line to type. `update(row)` when the row has changed: what is typed
// stays.
export class Answer {
  constructor(app, row, more = []) {
    this.app = app;
    this.readyAt = 0; // of the buttons
    this.question = element("div", { class: "question" });
    this.likely = element("span", { class: "likely-answers" });
    this.field = element("input", {
      type: "text",
      class: "mono",
      autocomplete: "off",
      autocapitalize: "off",
      spellcheck: "false",
    });
    const act = (event) => {
      event.preventDefault();
      this.send({ text: this.field.value });
    };
    const form = [this.likely, this.field, element("button", { class: "main" }, "Send"), ...more];
    this.node = element(
      "div",
      { class: "answer" },
      this.question,
      app.may("run")
        ? element("form", { onsubmit: act }, ...form)
        : element("p", { class: "quiet" }, "This login may not answer."),
    );
    this.update(row);
  }

  update(row) {
    const isAsking = row.group === "asking",
      key = JSON.stringify([isAsking, row.prompt]);
    this.row = row;
    if (this.shown === key) return;
    this.shown = key;
    this.node.classList.toggle("asks", isAsking);
    this.question.replaceChildren(...(isAsking ? [questionOf(row)] : []));
    this.likely.replaceChildren(...likelyAnswers(row.prompt).map((answer) => this.button(answer)));
    const isMasked = isSecret(row.prompt),
      name = isMasked ? "Password" : isAsking ? "Answer" : "A line to type";
    this.field.type = isMasked ? "password" : "text";
    this.field.placeholder = name;
    this.field.setAttribute("aria-label", `${name} for ${title(row)}`);
  }

  button({ text, label }) {
    const name = `Answer ${label} to ${title(this.row)}`;
    const act = () => performance.now() > this.readyAt && this.send({ text });
    return element("button", { type: "button", class: "likely", "aria-label": name, onclick: act }, label);
  }

  async send(answer) {
    if (this.isBusy) return;
    this.isBusy = true;
    try {
      await post("/api/answer", { job: this.row.id, enter: true, ...answer });
      if (answer.text === this.field.value) this.field.value = "";
      this.app.say(answer.eof ? `The input of ${title(this.row)} is ended.` : `Sent to ${title(this.row)}.`);
    } catch (problem) {
      this.app.fail(problem);
    }
    this.isBusy = false;
    this.readyAt = performance.now() + AGAIN_MS;
  }

  // Closes the input of a job that has no terminal.
  end() {
    return this.send({ enter: false, eof: true });
  }

  focus() {
    this.field.focus({ preventScroll: true });
  }
}

const questionOf = (row) =>
  row.prompt
    ? element("pre", { class: "prompt" }, row.prompt)
    : element("p", { class: "prompt quiet" }, "It reads its input.");
