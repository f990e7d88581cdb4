#!/usr/bin/env python3
"""Watches the page of a real gateway in Chromium while a script changes the gateway's state.

    gateway.py [--chromium PATH] URL

Reads commands from stdin, one a line, and answers each with `ok` or `FAILED: why` on stdout:

    sees SECONDS PATTERN    the text of the page has it within that time, without a reload
    lacks PATTERN           it has it not
    end                     nothing was asked elsewhere, no error was logged but that a request failed, and names are text
"""
import argparse
import re
import sys
import time

from browser import Failed, Seen, need
from playwright.sync_api import sync_playwright


def told(page):
    return " ".join(page.inner_text("body").replace("\u00a0", " ").split())


def sees(here, seconds, pattern):
    began = time.monotonic()
    while not re.search(pattern, told(here.page)):
        need(time.monotonic() - began < float(seconds), f"no {pattern} after {seconds} s in: {told(here.page)[:600]}")
        here.page.wait_for_timeout(50)
    return f"ok after {time.monotonic() - began:.1f} s"


def lacks(here, pattern):
    need(not re.search(pattern, told(here.page)), f"there is {pattern} in: {told(here.page)[:600]}")
    return "ok"


def end(here):
    # A gateway that is away refuses connections, which the browser logs.
    here.check(may=["Failed to load resource"])
    need(here.page.locator("img").count() == 1 and here.page.evaluate("window.alerts") == 0, "a name became an element")
    return "ok"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    parser.add_argument("url")
    options = parser.parse_args()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=options.chromium, args=["--no-sandbox"])
        here = Seen(browser, options.url)
        print("ok", flush=True)
        for line in sys.stdin:
            name, _, rest = line.strip().partition(" ")
            try:
                if name == "sees":
                    answer = sees(here, *rest.split(" ", 1))
                elif name == "lacks":
                    answer = lacks(here, rest)
                else:
                    answer = end(here)
            except Failed as error:
                answer = f"FAILED: {error}"
            print(answer.replace("\n", " "), flush=True)
            if name == "end":
                break
        browser.close()


if __name__ == "__main__":
    main()
