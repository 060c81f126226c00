// What this browser remembers of its user's choices, beside the address.

const PREFIX = "bgjob ";

export function kept(name, otherwise) {
  try {
    return JSON.parse(localStorage.getItem(PREFIX + name)) ?? otherwise;
  } catch {
    return otherwise; // storage is switched off, or was written by another version
  }
}

export function keep(name, value) {
  try {
    localStorage.setItem(PREFIX + name, JSON.stringify(value));
  } catch {} // full, or switched off: the choice is asked for again
}
