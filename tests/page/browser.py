#!/usr/bin/env python3
"""Checks the gateway's page in Chromium.

browser.py [--pictures DIR] [--figures DIR] [--chromium PATH] [--only NAME] [URL]

Without URL: everything, with gateways that mock.py makes up. With the URL of a gateway that serves requests: whatever needs no special
state of it (requests to elsewhere, errors, axe, width, keyboard, tabs, numbers). --figures makes those of the documents. Needs the packages playwright and axe-playwright-python."""
import argparse
import contextlib
import json
import pathlib
import re
import sys
import time
import urllib.parse

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import mock  # noqa: E402

WIDTHS, SCHEMES = (320, 768, 1280), ("light", "dark")
PAGE_BYTES_MAX = 60 << 10
FULL = dict(nodes=8, slow=2, dead=3, findings=True, notes=True, rebuild=True, may_change=True)
# What has the focus: enough to tell it from all others, and whether that is seen.
FOCUSED = """() => {
  const at = document.activeElement;
  if (!at || at === document.body) return null;
  const style = getComputedStyle(at);
  const box = at.getBoundingClientRect();
  return {what: at.tagName + "#" + at.id + " " + (at.getAttribute("aria-label") ?? at.textContent).slice(0, 40), top: box.top + scrollY,
          index: [...document.querySelectorAll("*")].indexOf(at), seen: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2 && box.width > 1};
}"""
INTERACTIVE = """() => [...document.querySelectorAll("a[href], button, select, input, summary, [tabindex='0']")]
  .filter(e => e.checkVisibility() && !(e.type === "radio" && !e.checked))
  .map(e => [[...document.querySelectorAll("*")].indexOf(e), e.outerHTML.slice(0, 80)])"""


class Failed(Exception):
    pass


def need(is_so, text):
    if not is_so:
        raise Failed(text)


class Seen:
    """A page of its own context, and what went wrong in it."""

    def __init__(self, browser, url, width=1280, scheme="light", height=900, **options):
        self.url, self.troubles, self.requests = url, [], []
        self.context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme, **options)
        self.context.add_init_script("""addEventListener("securitypolicyviolation", e => console.error("CSP: " + e.violatedDirective + " " + e.blockedURI));
          window.alerts = 0; window.alert = () => { window.alerts++; };""")
        self.page = self.open()

    def open(self):
        page = self.context.new_page()
        page.on("console", lambda message: self.troubles.append(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self.troubles.append(str(error)))
        page.on("dialog", lambda dialog: (self.troubles.append("a dialog: " + dialog.message), dialog.dismiss()))
        page.on("request", lambda request: self.requests.append(request.url))
        page.goto(self.url)
        page.wait_for_selector(".card, #token-form:not([hidden])")
        return page

    def check(self, may=()):
        """Nothing was asked elsewhere, and nothing was complained about, but what `may` be."""
        origin = urllib.parse.urlsplit(self.url)[:2]
        foreign = [url for url in self.requests if urllib.parse.urlsplit(url)[:2] != origin and not url.startswith("blob:" + self.url)]
        need(not foreign, f"requests to elsewhere: {foreign}")
        troubles = [text for text in self.troubles if not any(re.search(pattern, text) for pattern in may)]
        need(not troubles, f"errors: {troubles}")
        need(not self.context.cookies() and self.page.evaluate("localStorage.length + sessionStorage.length") == 0, "something is stored")


@contextlib.contextmanager
def seen(browser, url, **options):
    here = Seen(browser, url, **options)
    try:
        yield here
    finally:
        here.context.close()


@contextlib.contextmanager
def gateway(**options):
    made = mock.Mock(**options)
    made.url = made.serve()
    try:
        yield made
    finally:
        made.stop()


# ---- Checks of any gateway

def accessible(browser, url):
    for scheme in SCHEMES:
        for width in WIDTHS:
            with seen(browser, url, width=width, scheme=scheme) as here:
                page = here.page
                page.click("#trace-take")
                page.wait_for_timeout(600)
                page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
                page.wait_for_timeout(300)
                found = Axe().run(page).response["violations"]
                told = [(violation["id"], [node["html"][:120] for node in violation["nodes"][:3]]) for violation in found]
                need(not told, f"axe, {scheme} {width}: {json.dumps(told, indent=1)}")
                wide = page.evaluate("document.documentElement.scrollWidth")
                need(wide <= width, f"the page is {wide} wide at {width}")
                low = page.evaluate("[...document.querySelectorAll('button, summary, select')].filter(e => e.checkVisibility() && e.getBoundingClientRect().height < 43.5).map(e => e.outerHTML)")
                need(not low, f"too small to touch: {low}")
                here.check()


def keyboard(browser, url):
    with seen(browser, url) as here:
        page = here.page
        page.wait_for_timeout(500)
        wanted = dict(page.evaluate(INTERACTIVE))
        reached = []
        for _ in range(len(wanted) + 20):
            page.keyboard.press("Tab")
            page.wait_for_timeout(10)
            focused = page.evaluate(FOCUSED)
            if focused is None or (reached and focused["index"] == reached[0]["index"]):
                break
            reached.append(focused)
        hidden = [focused["what"] for focused in reached if not focused["seen"]]
        need(not hidden, f"focus is not seen: {hidden}")
        order = [focused["index"] for focused in reached]
        need(order == sorted(order), f"focus jumps: {[focused['what'] for focused in reached]}")
        missing = [html for index, html in wanted.items() if index not in order]
        need(not missing, f"not reached by Tab: {missing}")
        # The map's cursor.
        page.focus("#heat")
        said = set()
        for key in ("ArrowDown", "ArrowLeft", "Home", "End", "ArrowUp", "PageUp"):
            page.keyboard.press(key)
            said.add(page.inner_text("#heat-said"))
        need(len(said) >= 4 and all(" at " in text for text in said), f"the map says {said}")
        here.check()


def advances(browser, url):
    with seen(browser, url) as here:
        page, told = here.page, set()
        page.focus("#trace-take")
        page.evaluate("document.querySelector('.card').marked = true")
        for _ in range(4):
            told.add(page.inner_text("#nodes"))
            page.wait_for_timeout(1100)
        need(len(told) >= 3, "the figures of the nodes stand still")
        need(page.evaluate("document.activeElement.id") == "trace-take", "a poll takes the focus")
        need(page.evaluate("document.querySelector('.card').marked === true"), "cards are made anew")
        here.check()


def eight_tabs(browser, url):
    with seen(browser, url) as here:
        pages = [here.page] + [here.open() for _ in range(7)]
        # Each is seen: a browser without a window hides none.
        before = [page.inner_text("#nodes") for page in pages]
        pages[0].wait_for_timeout(4000)
        still = [at for at, page in enumerate(pages) if page.inner_text("#nodes") == before[at]]
        need(not still, f"these of eight tabs stand still: {still}")
        here.check(may=["503"])


# ---- Checks with what mock.py makes up

def state_is_told(browser):
    with gateway(nodes=8) as made, seen(browser, made.url) as here:
        need(here.page.inner_text("#sentence") == "All 8 nodes are well.", here.page.inner_text("#sentence"))
        here.page.evaluate("""() => { window.changes = 0; new MutationObserver(list => { window.changes += list.length; })
          .observe(document.querySelector("#sentence"), {childList: true, characterData: true, subtree: true}); }""")
        here.page.wait_for_timeout(3000)
        need(here.page.evaluate("window.changes") == 0, "the sentence is written anew though it is the same")
    with gateway(**FULL) as made, seen(browser, made.url) as here:
        text = here.page.inner_text("#sentence")
        need(text.startswith("192.168.178.23:7780: not linked, requests are queued. See whether") and text.endswith("2 other findings."), text)
        need(here.page.locator("#findings > li").count() == 2 and here.page.locator("#notes-list > li").count() == 2, "findings are missing")
        states = here.page.locator(".node-state").all_inner_texts()
        need(states[0].strip() == "ready" and "attention hot" in " ".join(states[2].split()).replace("flash, ", "") and states[3].strip().startswith("waiting"), states)
        need("7 of 8" in here.page.inner_text("#facts"), "nodes ready")
        need("Slowest: 192.168.178.22," in here.page.inner_text("#slow-text"), here.page.inner_text("#slow-text"))
        need("At least 1 of 2 copies" in here.page.inner_text("#copies") and "MiB/s" in here.page.inner_text("#copies"), "copies")


def scripts_may_be_off(browser):
    with gateway(nodes=4) as made:
        page = browser.new_page(java_script_enabled=False)
        page.goto(made.url)
        need("This page needs JavaScript. /status has the same as JSON" in page.inner_text("main"), page.inner_text("main"))
        page.close()


def figures_are_right(browser):
    """What the page says of a node is what follows from the answers."""
    with gateway(nodes=2) as made, seen(browser, made.url) as here:
        result = here.page.evaluate("""async () => {
          const {History} = await import("./history.js");
          const report = await (await fetch("live")).json();
          const history = new History();
          history.add(structuredClone(report), 0);
          const of = history.lately(0);
          return {of, report, worst: history.worst(0, "flash", 10), air: history.shares([of, history.lately(1)])};
        }""")
        report, of = result["report"], result["of"]
        slots = [slot for slot in report["slots"] if slot["second"] >= report["next_second"] - 5]
        need(of["perSecond"] == sum(slot["answered"][0] for slot in slots) / 5, "pieces/s")
        need(of["p99"] == max(slot["p99_us"][0] for slot in slots), "p99")
        bounds, sums = report["bounds_us"], [0] * 32
        for slot in slots:
            for at, count in enumerate(slot["flash"][0][1:]):
                sums[slot["flash"][0][0] + at] += count
        middles = [((bounds[b - 1] if b else bounds[0] / 4) * (bounds[b] if b < 31 else bounds[30] * 1.6)) ** 0.5 for b in range(32)]
        mean = sum(m * n for m, n in zip(middles, sums)) / sum(sums)
        need(abs(of["spent"]["flash"] - mean) < 1e-6 * mean, f"flash: {of['spent']} and {mean}")
        need(result["worst"] in bounds, "the p99 of a cause is a bound")


def evil_names_stay_text(browser):
    with gateway(evil=True, volumes=2, **{**FULL, "dead": None}) as made:
        made.paused, made.measured = {0}, (0, 0, "way", time.monotonic() - 9)
        for width in (320, 1280):
            with seen(browser, made.url, width=width) as here:
                page = here.page
                page.click("#trace-take")
                page.wait_for_timeout(1500)
                page.click("#action-pause")
                need("Use <img src=x onerror=alert(1)> again?" in page.inner_text("#ask") and "way to <img src=x" in page.inner_text("#measured"), page.inner_text("#ask"))
                page.click("#ask-no")
                need(page.evaluate("window.alerts") == 0 and page.locator("img").count() == 1 and page.locator("script").count() == 1, "a name became an element")
                names = page.locator(".card .name").all_inner_texts()
                need(names[0] == "<img src=x onerror=alert(1)>" and names[3] == "\ufffdgnp.exe", names)
                need(page.evaluate("document.documentElement.scrollWidth") <= width, "evil names make the page wide")
                here.check()


def restart_is_found(browser):
    # The new start is older than the other one was: it has seconds after `since`, and others before.
    with gateway(nodes=4, age=20) as made, seen(browser, made.url) as here:
        made.restart(age=45)
        here.page.wait_for_timeout(2500)
        facts = here.page.inner_text("#facts")
        need(re.search(r"up\s+4\d\ss", facts), facts)
        need("pieces/s\n0\n" not in facts and made.asked["/live"] >= 3, f"nothing after a restart: {facts}")
        # The whole ring of the new start, not only what came after `since` of the old one.
        row = here.page.evaluate("document.querySelector('.spark polyline').getAttribute('points')").split(" ")
        need(sum(float(point.split(",")[1]) < 18 for point in row) > 35, row)
        here.check()


def absence_is_told(browser):
    with gateway(nodes=4) as made, seen(browser, made.url) as here:
        page = here.page
        made.failure, made.retry_after = 503, 1
        page.wait_for_timeout(1500)
        need("busy" not in page.inner_text("#sentence"), "a moment's business is told")
        page.wait_for_timeout(4000)
        need("The gateway is busy. The figures below are out of date." in page.inner_text("#sentence"), page.inner_text("#sentence"))
        made.failure, made.retry_after = 403, None
        page.wait_for_timeout(2500)
        need("It is refused by the mock <b>now</b>." in page.inner_text("#sentence"), page.inner_text("#sentence"))
        made.failure = None
        page.wait_for_timeout(2500)
        need("are well" in page.inner_text("#sentence") and not page.evaluate("document.body.classList.contains('stale')"), "it is not found again")
        page.route("**/live*", lambda route: route.abort())
        page.wait_for_timeout(3300)
        need(page.inner_text("#sentence").startswith("The gateway does not answer.") and re.match(r"Since [2-5]\ss", page.inner_text("#since")), page.inner_text("#lead"))
        need(page.evaluate("document.body.classList.contains('stale')"), "old figures look as if they were new")
        found = Axe().run(page).response["violations"]
        need(not found, f"axe, out of date: {[violation['id'] for violation in found]}")
        page.unroute("**/live*")
        page.wait_for_timeout(1800)
        need("are well" in page.inner_text("#sentence"), "it is not found again")
        here.check(may=["50.|403", "ERR_FAILED"])


def hidden_pages_rest(browser):
    with gateway(nodes=4) as made, seen(browser, made.url) as here:
        hide = """is => { Object.defineProperty(document, "hidden", {get: () => is, configurable: true}); document.dispatchEvent(new Event("visibilitychange")); }"""
        here.page.evaluate(hide, True)
        here.page.wait_for_timeout(500)
        before = made.asked["/live"]
        here.page.wait_for_timeout(2500)
        need(made.asked["/live"] == before, "it asks while it is hidden")
        here.page.evaluate(hide, False)
        here.page.wait_for_timeout(2500)
        need(before + 2 <= made.asked["/live"] <= before + 4, f"it asked {made.asked['/live'] - before} times in 2.5 s")
        here.check()


def token_is_asked(browser):
    with gateway(nodes=4, token="secret") as made, seen(browser, made.url) as here:
        need("wants an access token" in here.page.inner_text("#sentence"), here.page.inner_text("#sentence"))
        here.page.fill("#token", "secret")
        here.page.keyboard.press("Enter")
        here.page.wait_for_selector(".card")
        need(not here.page.is_visible("#token-form") and "?" not in here.page.url, "the form stays, or the token is in the address")
        here.check(may=["401"])


def scrub_asks_first(browser):
    with gateway(**FULL) as made, seen(browser, made.url) as here:
        page = here.page
        button = page.locator("#copies button")
        button.click()
        need("Read all copies of volume pool and compare them?" in page.inner_text("#ask"), page.inner_text("#ask"))
        page.keyboard.press("Escape")
        need(made.scrubs == [] and page.evaluate("document.activeElement.textContent") == "Scrub", "Esc does not cancel, or focus is lost")
        button.click()
        page.click("#ask-yes")
        page.wait_for_timeout(1800)
        need(made.scrubs == [{"volume": "pool", "stop": False}], made.scrubs)
        need("The scrub is under way." in page.inner_text("#copies") and button.inner_text() == "Stop the scrub", page.inner_text("#copies"))
        made.scrub_refusal = "its copies are <i>behind</i>"
        button.click()
        page.click("#ask-yes")
        page.wait_for_timeout(800)
        need("its copies are <i>behind</i>" in page.inner_text("#copies"), page.inner_text("#copies"))
        here.check(may=["409"])
    with gateway(nodes=4, copies=True) as made, seen(browser, made.url) as here:
        need(here.page.locator("#copies button:visible").count() == 0, "Scrub is offered to whoever may not")


def nodes_are_paused(browser):
    with gateway(nodes=4, copies=True) as made, seen(browser, made.url) as here:
        need(not here.page.is_visible("#actions") and not here.page.is_visible("#measured"), "actions are offered to whoever may not")
    with gateway(nodes=8, volumes=2, copies=True, may_change=True) as made, seen(browser, made.url) as here:
        page = here.page
        card = page.locator(".card").nth(6)
        # The third node of the second volume, chosen with the keyboard.
        page.focus("#action-node")
        page.keyboard.press("End")
        page.keyboard.press("ArrowUp")
        page.evaluate("document.querySelector('#action-node option').marked = true")
        need(page.input_value("#action-node") == "6", page.input_value("#action-node"))
        page.focus("#action-pause")
        page.keyboard.press("Enter")
        need("Pause 192.168.178.26?" in page.inner_text("#ask") and page.inner_text("#ask-yes") == "Pause", page.inner_text("#ask"))
        page.click("#ask-no")
        page.wait_for_timeout(1300)
        need(made.posted == [] and page.evaluate("document.activeElement.id") == "action-pause", "Cancel sends it, or focus is lost")
        need(card.locator(".node-state").inner_text().strip() == "ready", card.inner_text())
        page.keyboard.press("Enter")
        page.click("#ask-yes")
        page.wait_for_timeout(1800)
        need(made.posted == [("pause", {"volume": made.volume_names[1], "node": 2, "resume": False})], made.posted)
        need(card.locator(".node-state").inner_text().strip() == "paused" and card.get_attribute("data-mark") == "waiting", card.inner_text())
        need(page.inner_text("#action-said") == "192.168.178.26 is paused." and page.inner_text("#sentence") == "Nodes ready: 7 of 8.", page.inner_text("#measured"))
        need(page.inner_text("#action-pause") == "Use again" and page.input_value("#action-node") == "6", "the choice is lost, or the button's word")
        need(page.evaluate("document.querySelector('#action-node option').marked === true"), "the choice of nodes is made anew")
        page.click("#action-pause")
        need("Use 192.168.178.26 again?" in page.inner_text("#ask"), page.inner_text("#ask"))
        page.click("#ask-yes")
        page.wait_for_timeout(1800)
        need(made.posted[1:] == [("pause", {"volume": made.volume_names[1], "node": 2, "resume": True})], made.posted)
        need(page.inner_text("#action-said") == "192.168.178.26 is used again." and card.locator(".node-state").inner_text().strip() == "ready", card.inner_text())
        made.refusal = "its copies are <i>needed</i>"
        page.click("#action-pause")
        page.click("#ask-yes")
        page.wait_for_timeout(800)
        need(page.inner_text("#action-said") == "The gateway refuses (409): its copies are <i>needed</i>." and page.locator("#measured i").count() == 0, page.inner_text("#action-said"))
        made.refusal, made.posted = None, []
        page.click("#action-drain")
        need("Move all copies away from 192.168.178.26?" in page.inner_text("#ask") and page.inner_text("#ask-yes") == "Drain", page.inner_text("#ask"))
        page.click("#ask-yes")
        page.wait_for_timeout(1800)
        need(made.posted == [("move", {"volume": made.volume_names[1], "node": 2, "cancel": False})], made.posted)
        need(page.inner_text("#action-said") == "1 copy to be moved away from 192.168.178.26.", page.inner_text("#action-said"))
        need(card.locator(".node-state").inner_text().strip() == "draining" and page.inner_text("#action-drain") == "Stop draining", card.inner_text())
        made.drained = {6}
        page.wait_for_timeout(1300)
        need(card.locator(".node-state").inner_text().strip() == "drained", card.inner_text())
        page.click("#action-drain")
        page.click("#ask-yes")
        page.wait_for_timeout(1800)
        need(made.posted[1:] == [("move", {"volume": made.volume_names[1], "node": 2, "cancel": True})], made.posted)
        need(card.locator(".node-state").inner_text().strip() == "ready" and page.inner_text("#action-drain") == "Drain", card.inner_text())
        page.select_option("#action-node", "0")
        need(page.inner_text("#action-said") == "" and page.inner_text("#action-pause") == "Pause", "what was said of one node stays for another")
        here.check(may=["409"])
    with gateway(nodes=4, may_change=True) as made, seen(browser, made.url) as here:
        need(here.page.is_visible("#action-flash") and not here.page.is_visible("#action-pause") and not here.page.is_visible("#action-drain"), "Pause or Drain is offered without copies")


def nodes_are_measured(browser):
    with gateway(nodes=4, may_change=True) as made, seen(browser, made.url) as here, seen(browser, made.url) as other:
        page, made.measure_s = here.page, 3.0
        for aspect, question, asked, result in [
            ("flash", "Measure the flash of 192.168.178.21?", "The flash of 192.168.178.21 is being measured.",
             "The flash of 192.168.178.21: 1 at a time, 1,180 reads of 4 KiB a second (4.61 MiB/s), half of them within 812 µs, 99 % within 1.98 ms; "
             "16 at a time, 9,120 reads of 4 KiB a second (35.6 MiB/s), half of them within 1.7 ms, 99 % within 4.1 ms; 12 empty blocks not counted."),
            ("way", "Measure the way to 192.168.178.21?", "The way to 192.168.178.21 is being measured.",
             "The way to 192.168.178.21: 1 at a time, 1,110 reads of 1 B a second (1.08 KiB/s), half of them within 871 µs, 99 % within 2 ms; "
             "8 at a time, 612 reads of 64 KiB a second (38.3 MiB/s), half of them within 12.4 ms, 99 % within 21 ms."),
        ]:
            page.select_option("#action-node", "1")
            page.click(f"#action-{aspect}")
            need(question in page.inner_text("#ask"), page.inner_text("#ask"))
            page.click("#ask-yes")
            page.wait_for_timeout(1300)
            need(made.posted.pop() == ("measure", {"volume": "pool", "node": 1, "aspect": aspect}) and not made.posted, "something else was posted")
            need(page.inner_text("#measured-what") == asked and re.fullmatch(r"[23]\ss left\.", page.inner_text("#measured-when")), page.inner_text("#measured"))
            page.wait_for_timeout(3000)
            made.may_change = False
            page.wait_for_timeout(1300)
            for each in (page, other.page):
                told = each.inner_text("#measured-what").replace("\u00a0", " ")
                need(told == result and re.fullmatch(r"Begun [4-7]\ss ago\.", each.inner_text("#measured-when")), each.inner_text("#measured"))
            need(not page.is_visible("#actions"), "actions are offered to whoever may no longer")
            made.may_change = True
            page.wait_for_selector("#actions:visible")
        made.trouble = "it has <b>nothing</b> on its flash"
        page.wait_for_timeout(1300)
        need(page.inner_text("#measured-what") == f"The way to 192.168.178.21: {made.trouble}." and page.locator("#measured b").count() == 0, page.inner_text("#measured"))
        # What goes on with each second is told to nobody who hears the page.
        need(page.locator("[role=status] #measured-when, #measured[role]").count() == 0, "each second is told")
        here.check()


def actions_are_accessible(browser):
    with gateway(nodes=4, copies=True, may_change=True) as made:
        made.paused, made.measured = {2}, (0, 1, "flash", time.monotonic() - 20)
        for scheme in SCHEMES:
            for width in (320, 1280):
                with seen(browser, made.url, width=width, scheme=scheme) as here:
                    page = here.page
                    page.wait_for_timeout(300)
                    for state in ("the control", "the question"):
                        if state == "the question":
                            page.click("#action-way")
                            box = page.locator("#ask").bounding_box()
                            need(box["x"] >= 0 and box["x"] + box["width"] <= width, f"the question is wider than {width}: {box}")
                        found = Axe().run(page).response["violations"]
                        need(not found, f"axe, {state}, {scheme} {width}: {[violation['id'] for violation in found]}")
                        need(page.evaluate("document.documentElement.scrollWidth") <= width, f"{state} is wider than {width}")
                    page.keyboard.press("Escape")
                    here.check()
        need(made.posted == [], "Esc does not cancel")


def commands_are_copied(browser):
    with gateway(**FULL) as made:
        for permissions in (["clipboard-read", "clipboard-write"], []):
            with seen(browser, made.url, permissions=permissions) as here:
                if not permissions:
                    here.page.evaluate("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
                here.page.click("#lead .command button")
                here.page.wait_for_timeout(200)
                need(here.page.inner_text("#lead .command button") == "Copied" and here.page.inner_text("#said") == "Copied", here.page.inner_text("#lead"))
                command = mock.FINDINGS[0]["command"].replace("ADDR:PORT", "/".join(made.url.split("/")[:3]))
                if permissions:
                    need(here.page.evaluate("navigator.clipboard.readText()") == command, "something else was copied")
                else:
                    need(here.page.evaluate("String(getSelection())") == command, "nothing was selected")
                here.check()


def trace_is_saved(browser):
    with gateway(nodes=4) as made, seen(browser, made.url) as here:
        page = here.page
        page.click("#trace-take")
        page.wait_for_selector("#trace-lanes svg")
        for number, stages in ((8, 20), (7, 1), (5, 3), (1, 10)):
            page.select_option("#trace-pick", str(number))
            rows = page.locator("#trace-table tbody tr").count()
            need(rows == stages, f"request {number} has {rows} stages and not {stages}")
        with page.expect_download() as told:
            page.click("#trace-save")
        need(told.value.suggested_filename == "flashmob-trace.json", told.value.suggested_filename)
        trace = json.loads(pathlib.Path(told.value.path()).read_text())
        spans = [event for event in trace["traceEvents"] if event["ph"] == "X"]
        names = {event["args"]["name"] for event in trace["traceEvents"] if event["name"] == "process_name"}
        need(trace["displayTimeUnit"] == "ns" and len(spans) > 100 and "gateway" in names and len(names) == 5, names)
        lanes = {}
        for span in spans:
            need(span["dur"] >= 0, span)
            lanes.setdefault((span["pid"], span["tid"]), []).append((span["ts"], span["ts"] + span["dur"]))
        for lane, times in lanes.items():
            times.sort()
            need(all(a[1] <= b[0] + 1e-3 for a, b in zip(times, times[1:])), f"spans overlap in {lane}")
        here.check()


def is_small(_browser):
    size = sum(file.stat().st_size for file in mock.PAGE.iterdir())
    need(size <= PAGE_BYTES_MAX, f"the page's files have {size} bytes, more than {PAGE_BYTES_MAX}")


def many_nodes(browser):
    with gateway(nodes=64, slow=5, copies=True, may_change=True) as made:
        for width in WIDTHS:
            with seen(browser, made.url, width=width) as here:
                here.page.select_option("#action-node", "63")
                here.page.wait_for_timeout(1500)
                need(here.page.input_value("#action-node") == "63" and here.page.locator("#action-node option").count() == 64, "the 64th node cannot be chosen")
                here.page.click("#action-pause")
                need("Pause 192.168.178.83?" in here.page.inner_text("#ask"), here.page.inner_text("#ask"))
                need(here.page.evaluate("document.querySelector('#ask').getBoundingClientRect().right") <= width, f"the question is wider than {width}")
                here.page.click("#ask-no")
                need(here.page.evaluate("document.documentElement.scrollWidth") <= width, f"64 nodes are wider than {width}")
                cut = here.page.evaluate("[...document.querySelectorAll('.card dd')].filter(e => e.getBoundingClientRect().right > e.closest('.card').getBoundingClientRect().right).map(e => e.textContent)")
                need(not cut, f"figures leave their card: {cut}")
                need(len(here.page.evaluate("document.querySelector('#heat').height > 600 ? 'y' : ''")) == 1, "the map has no room for 64 nodes")
                busy = here.page.evaluate("""async () => { const at = performance.now(); let most = 0, before = at;
                  while (performance.now() < at + 3000) { await new Promise(r => setTimeout(r, 5)); const now = performance.now(); most = Math.max(most, now - before); before = now; }
                  return most; }""")
                need(busy < 400, f"a poll of 64 nodes holds the page up for {busy:.0f} ms")
                here.check()


OF_ANY = [accessible, keyboard, advances, eight_tabs]
OF_MOCK = [is_small, state_is_told, scripts_may_be_off, figures_are_right, evil_names_stay_text, restart_is_found, absence_is_told, hidden_pages_rest, token_is_asked,
           scrub_asks_first, nodes_are_paused, nodes_are_measured, actions_are_accessible, commands_are_copied, trace_is_saved, many_nodes]


def pictures(browser, directory, url=None):
    directory.mkdir(parents=True, exist_ok=True)
    for name, options in ({"gateway": None} if url else {"8": FULL, "64": dict(nodes=64, slow=5, copies=True, may_change=True)}).items():
        with contextlib.ExitStack() as stack:
            address = url
            if not url:
                made = stack.enter_context(gateway(**options))
                made.paused, made.measured, address = {6}, (0, 4, "flash", time.monotonic() - 20), made.url
            for scheme in SCHEMES:
                for width in WIDTHS:
                    with seen(browser, address, width=width, scheme=scheme) as here:
                        here.page.click("#trace-take")
                        here.page.wait_for_timeout(2500)
                        here.page.screenshot(path=directory / f"{name}-{width}-{scheme}.png", full_page=True)


def figures(browser, directory):
    """Those of the documents: docs/figures/page-*.png."""
    for name, width, height, scheme, options in [
        ("page-1280-light", 1280, 1180, "light", FULL),
        ("page-320-dark", 320, 900, "dark", FULL),
        ("page-64-nodes", 1280, 1180, "light", dict(nodes=64, slow=5, copies=True)),
    ]:
        with gateway(**options) as made, seen(browser, made.url, width=width, height=height, scheme=scheme) as here:
            here.page.wait_for_timeout(2500)
            here.page.screenshot(path=directory / f"{name}.png")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("url", nargs="?")
    parser.add_argument("--pictures", type=pathlib.Path)
    parser.add_argument("--figures", type=pathlib.Path)
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    parser.add_argument("--only")
    options = parser.parse_args()
    failures = 0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=options.chromium, args=["--no-sandbox"])
        for check in OF_ANY + ([] if options.url else OF_MOCK):
            if options.only not in (None, check.__name__):
                continue
            began = time.monotonic()
            try:
                if check in OF_ANY:
                    with contextlib.ExitStack() as stack:
                        check(browser, options.url or stack.enter_context(gateway(**FULL)).url)
                else:
                    check(browser)
                result = "ok"
            except Exception as error:  # A check that cannot be made has failed, too.
                failures, result = failures + 1, f"FAILED: {error}"
            print(f"{check.__name__:24} {time.monotonic() - began:5.1f} s  {result}", flush=True)
        if options.figures:
            figures(browser, options.figures)
        if options.pictures:
            pictures(browser, options.pictures, options.url)
        browser.close()
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
