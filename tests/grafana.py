#!/usr/bin/env python3
"""Runs the query of every panel of a Grafana dashboard against a Prometheus: grafana.py DASHBOARD PROMETHEUS-URL [TITLE...].

Fails if one is refused, or has no result; panels with these titles may have none."""
import json
import sys
import urllib.error
import urllib.parse
import urllib.request

dashboard, url, may_be_empty = sys.argv[1], sys.argv[2], set(sys.argv[3:])
with open(dashboard, encoding="utf-8") as file:
    panels = [panel for panel in json.load(file)["panels"] if panel["type"] != "row"]
missing = may_be_empty - {panel["title"] for panel in panels}
bad = [f"there is no panel '{title}'" for title in missing]
count = 0
for panel in panels:
    for target in panel["targets"]:
        query = target["expr"].replace("$__rate_interval", "10s").replace("$job", ".*")
        count += 1
        try:
            with urllib.request.urlopen(f"{url}/api/v1/query?" + urllib.parse.urlencode({"query": query})) as answer:
                result = json.load(answer)["data"]["result"]
        except urllib.error.HTTPError as error:
            bad.append(f"{panel['title']}: {query}: {json.load(error)['error']}")
            continue
        # No value is a number where nothing was divided by nothing.
        if not any(series["value"][1] != "NaN" for series in result) and panel["title"] not in may_be_empty:
            bad.append(f"{panel['title']}: no result of {query}")
print(f"{count} queries of {len(panels)} panels")
if bad or not count:
    sys.exit("\n".join(bad))
