"""What a command showed, without what differs from run to run: ids, times, loads, ports, and how columns are padded."""

import re

CHANGING = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"), "UUID"),
    (re.compile(r"\b[0-9a-f]{8}\b"), "ID"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"), "MOMENT"),
    (re.compile(r"\b\d+[smhd] ago"), "AGO"),
    (re.compile(r"\b\d+(?:\.\d)?[smhd](?:\d+[smh])?(?![\w.])"), "TIME"),
    (re.compile(r"\b\d+(?:\.\d)? s\b"), "TIME"),
    (re.compile(r"\b\d+%"), "CPU"),
    (re.compile(r"\b\d+(?:\.\d)?[KMG]\b"), "MEM"),
    (re.compile(r" {2,}"), "  "),
)


def steady(text: str) -> str:
    for changing, word in CHANGING:
        text = changing.sub(word, text)
    return text.replace("\r\n", "\n")
