// The node whose pieces take longest, or another, and where that time goes.

import { byId, choices, legend, part, say, show, svg, table } from "./dom.js";
import { micros, percent } from "./format.js";
import { LATELY_S } from "./history.js";
import { drawFindings } from "./state.js";

const WHERE = {
	queue: "waits at the gateway to be sent",
	network: "way to the node and back",
	node: "at the node, without its flash",
	flash: "in the node's store, mostly flash",
};
const PARTS = Object.keys(WHERE);

const pick = byId("slow-node");
const rects = PARTS.map(() => svg("rect"));
byId("slow-bar").append(...rects);
const parts = legend(byId("slow-legend"), PARTS);
const setTimes = table(byId("slow-table"), "Mean time of a piece, by where it goes", ["part", "time", "share", "what"]);

export function drawSlowest(picture) {
	const { live, names, lately } = picture;
	const slowest = lately.reduce((most, { total }, node) => (total > (lately[most]?.total ?? 0) ? node : most), -1);
	choices(pick, [["", "the slowest"], ...names.map((name, at) => [at, name])]);
	pick.onchange = () => drawSlowest(picture);
	const node = pick.value === "" ? slowest : Number(pick.value);
	const of = lately[node];
	const is = of?.total > 0;
	for (const id of ["slow-legend", "slow-table"]) show(byId(id), is);
	drawFindings(byId("slow-remedies"), (live.findings ?? []).filter((finding) => finding.node === node), live, false);
	const name = names[node];
	if (!is) {
		for (const rect of rects) part(rect, { share: 0 });
		return say(byId("slow-text"), `${of ? name + ": n" : "N"}o answers in the last ${LATELY_S} s.`);
	}
	const largest = PARTS.reduce((a, b) => (of.spent[b] > of.spent[a] ? b : a));
	const starved = of.starved >= 100 ? ` Its loop waited for a processor for ${percent(of.starved / 1000)} of the time.` : "";
	say(byId("slow-text"), `${pick.value === "" ? "Slowest: " : ""}${name}, ${micros(of.total)} a piece, most of it in ${largest}.${starved}`);
	let from = 0;
	PARTS.forEach((name, at) => {
		const share = of.spent[name] / of.total;
		part(rects[at], { share, from, kind: name });
		from += share;
		say(parts[at], `${name} ${percent(share)}`);
	});
	setTimes(PARTS.map((name) => [name, micros(of.spent[name]), percent(of.spent[name] / of.total), WHERE[name]]));
}
