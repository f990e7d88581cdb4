// The copies of each volume, and the scrubs of whoever may start them.

import { change } from "./change.js";
import { attribute, byId, el, icon, keyed, mark, say, show } from "./dom.js";
import { bytes, longTime, plural, short, shortened } from "./format.js";

export function drawCopies({ live }) {
	const volumes = live.volumes.filter(({ copies }) => copies);
	show(byId("copies"), volumes.length > 0);
	keyed(byId("copies-list"), volumes, ({ name }) => name, volumeOfCopies);
	for (const button of document.querySelectorAll("#copies button")) show(button, live.may_change === true);
}

function left({ behind_copies: behind, left_bytes: bytesLeft, bytes_per_second: rate, eta_seconds: eta }) {
	if (!behind) return "none behind";
	const speed = eta != null ? `${bytes(rate)}/s, ${longTime(eta)} left` : "waiting";
	return `${plural(behind, "copy", "copies")} to be made current: ${bytes(bytesLeft)}, ${speed}`;
}

function volumeOfCopies() {
	const sign = icon();
	const [title, text, chunks, answer] = [el("h3"), el("span"), el("p", { class: "small" }), el("p", { role: "status", class: "small" })];
	const progress = el("progress", { max: 1, "aria-label": "copies that are current" });
	const button = el("button");
	const element = el("article", {}, title, el("p", {}, sign, " ", text), progress, chunks, button, answer);
	return [element, ({ name, copies }) => {
		const volume = shortened(name, 60);
		const stop = copies.is_scrubbing;
		mark(sign, copies.fewest_current < copies.copies ? "attention" : "good");
		say(title, volume);
		say(text, `At least ${copies.fewest_current} of ${copies.copies} copies of each chunk; ${left(copies.rebuild)}.`);
		progress.value = Math.max(0, 1 - copies.rebuild.behind_copies / (copies.chunks * copies.copies || 1));
		show(progress, copies.rebuild.behind_copies > 0);
		const parts = [plural(copies.chunks, "chunk"), `${short(copies.behind_chunks)} behind`, `${short(copies.doubtful_chunks)} doubtful`];
		say(chunks, `${parts.join(", ")}; ${stop ? "a" : "no"} scrub is under way.`);
		say(button, stop ? "Stop the scrub" : "Scrub");
		attribute(button, "aria-label", `${button.textContent}: volume ${volume}`);
		const question = stop
			? `Stop the scrub of volume ${volume}? The next one begins anew.`
			: `Read all copies of volume ${volume} and compare them? It takes air and flash time until it ends.`;
		const done = ({ is_running: is }) => `The scrub is ${is ? "under way" : "stopped"}.`;
		button.onclick = () => change(question, button.textContent, "scrub", { volume: name, stop }, answer, done);
	}];
}
