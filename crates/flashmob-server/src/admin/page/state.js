// One sentence: all is well, or what is worst and what mends it. Then other findings.

import { byId, el, icon, keyed, mark, say, show } from "./dom.js";
import { bytes, harmless, longTime, number, plural, short, shortened } from "./format.js";

const ICONS = { severe: "severe", wrong: "attention", note: "note" };

const leadIcon = icon();
byId("sentence").prepend(leadIcon);
const [leadCommand, updateCommand] = command();
byId("lead").append(leadCommand);

// Whose finding it is, what was found, and what mends it.
function told({ node, volume, found, remedy }, live) {
	const of = live.nodes[node] ?? live.volumes[volume];
	const ended = (text) => shortened(text, 300).replace(/[.\s]*$/, ".");
	const name = of ? (live.nodes[node] ? "" : "volume ") + shortened(of.name, 40) : "the gateway";
	return [`${name}:`, ended(found), remedy ? ended(remedy[0].toUpperCase() + remedy.slice(1)) : ""];
}

function lead(live, bad) {
	const { more_findings: more } = live;
	const nodes = live.nodes.filter(isThere);
	if (bad.length) {
		const others = bad.length - 1 + (more ?? 0);
		const rest = others ? `${plural(others, "other finding")}.` : [];
		return [ICONS[bad[0].severity], told(bad[0], live).concat(rest).join(" ")];
	}
	const ready = readyOf(nodes);
	if (!nodes.length) return ["note", "This gateway has no nodes."];
	if (ready < nodes.length) return ["attention", `Nodes ready: ${ready} of ${nodes.length}.`];
	return ["good", ready === 1 ? "The only node is well." : `All ${ready} nodes are well.`];
}

export const isThere = ({ state }) => state !== "removed";

const readyOf = (nodes) => nodes.filter((node) => node.state === "ready" && !node.is_paused).length;

export function drawState({ live }) {
	const [bad, notes] = [[], []];
	for (const finding of live.findings ?? []) (finding.severity === "note" ? notes : bad).push(finding);
	sayLead(...lead(live, bad), bad[0]?.command);
	drawFindings(byId("findings"), bad.slice(1), live);
	drawFindings(byId("notes-list"), notes, live);
	show(byId("notes"), notes.length > 0);
	say(byId("notes-title"), plural(notes.length, "note"));
	const more = live.more_findings ?? 0;
	show(byId("more"), more > 0);
	say(byId("more"), `${plural(more, "more finding")}: flashmob status prints all.`);
}

function sayLead(kind, text, run) {
	mark(leadIcon, kind);
	byId("lead").dataset.mark = kind;
	say(byId("sentence-text"), text);
	updateCommand(run);
	document.title = `${{ good: "well", away: "no answer" }[kind] ?? "attention"} – flashmob`;
}

// Why there is nothing newer, if there is not.
export function sayTrouble(why, ago, isKnown) {
	document.body.classList.toggle("stale", Boolean(why) && isKnown);
	show(byId("since"), Boolean(why));
	if (!why) return;
	sayLead("away", `${why}.${isKnown ? " The figures below are out of date." : ""}`);
	say(byId("since"), `Since ${ago}; it is asked again each second.`);
}

export function drawFindings(list, findings, live, isNamed = true) {
	const seen = {};
	const key = ({ cause, volume, node }) => {
		const name = [cause, volume, node];
		seen[name] = (seen[name] ?? 0) + 1;
		return `${name} ${seen[name]}`;
	};
	keyed(list, findings, key, () => {
		const sign = icon();
		const texts = ["word", "name", "found", "remedy"].map((name) => el("span", { class: name }));
		const [run, update] = command();
		return [el("li", {}, el("p", {}, sign, ...texts.flatMap((text) => [" ", text])), run), (finding) => {
			const [name, found, remedy] = told(finding, live);
			mark(sign, ICONS[finding.severity]);
			[harmless(finding.severity), isNamed ? name : "", found, remedy].forEach((text, at) => say(texts[at], text));
			update(finding.command);
		}];
	});
	show(list, findings.length > 0);
}

function command() {
	const code = el("code", { tabindex: 0 });
	const button = el("button", {}, "Copy");
	const element = el("div", { class: "command" }, code, button);
	button.onclick = async () => {
		const word = (await copied(code)) ? "Copied" : "Selected";
		const tell = (shown, heard) => {
			say(button, shown);
			say(byId("said"), heard);
		};
		tell(word, word);
		setTimeout(tell, 2000, "Copy", "");
	};
	show(element, false);
	return [element, (text) => {
		show(element, Boolean(text));
		if (text) say(code, harmless(text).replace("ADDR:PORT", location.origin));
	}];
}

async function copied(code) {
	try {
		// Absent where the page came over plain HTTP from another machine.
		await navigator.clipboard.writeText(code.textContent);
		return true;
	} catch {
		getSelection().selectAllChildren(code);
		return document.execCommand("copy");
	}
}

export function drawFacts({ live, lately }) {
	const sum = (name) => lately.reduce((all, node) => all + node[name], 0);
	const volumes = live.volumes.map(({ name, size_bytes: size }) => `${shortened(name, 24)} ${size == null ? "" : bytes(size)}`);
	if (volumes.length > 4) volumes.splice(4, Infinity, `${live.volumes.length - 4} more`);
	const facts = Object.entries({
		volumes: volumes.join(", "),
		"nodes ready": `${readyOf(live.nodes)} of ${live.nodes.filter(isThere).length}`,
		"pieces/s": short(sum("perSecond")),
		received: `${bytes(sum("bytesPerSecond"))}/s`,
		clients: number(live.clients),
		"requests in hand": number(live.in_hand),
		up: longTime(live.uptime_seconds),
		version: harmless(live.version),
	});
	keyed(byId("facts"), facts, ([name]) => name, ([name]) => {
		const dd = el("dd");
		return [el("div", {}, el("dt", {}, name), dd), ([, text]) => say(dd, text)];
	});
}
