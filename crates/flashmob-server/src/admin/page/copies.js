// The copies of each volume, and the scrubs of whoever may start them.

import { attribute, byId, el, icon, keyed, say, show } from "./dom.js";
import { bytes, longTime, plural, short, shortened } from "./format.js";
import { ask, json } from "./net.js";

export function drawCopies({ live }) {
	const volumes = live.volumes.filter(({ copies }) => copies);
	show(byId("copies"), volumes.length > 0);
	keyed(byId("copies-list"), volumes, ({ name }) => name, volumeOfCopies);
	for (const button of document.querySelectorAll("#copies button")) show(button, live.may_change === true);
}

function left({ behind_copies: behind, left_bytes: bytesLeft, bytes_per_second: rate, eta_seconds: eta }) {
	if (!behind) return "none behind";
	const speed = rate != null && eta != null ? `${bytes(rate)}/s, ${longTime(eta)} left` : "waiting for their nodes";
	return `${plural(behind, "copy", "copies")} to be made current: ${bytes(bytesLeft)}, ${speed}`;
}

function volumeOfCopies() {
	const mark = icon();
	const [name, text, chunks, answer] = [el("h3"), el("span"), el("p", { class: "small" }), el("p", { role: "status", class: "small" })];
	const progress = el("progress", { max: 1, "aria-label": "copies that are current" });
	const button = el("button", { type: "button" });
	let now;
	button.addEventListener("click", () => confirmScrub(now, answer));
	const element = el("article", {}, name, el("p", {}, mark.element, " ", text), progress, chunks, button, answer);
	return {
		element,
		update(volume) {
			const { copies } = volume;
			now = volume;
			mark.set(copies.fewest_current < copies.copies ? "attention" : "good");
			say(name, shortened(volume.name, 60));
			say(text, `At least ${copies.fewest_current} of ${copies.copies} copies of each chunk; ${left(copies.rebuild)}.`);
			progress.value = Math.max(0, 1 - copies.rebuild.behind_copies / (copies.chunks * copies.copies || 1));
			show(progress, copies.rebuild.behind_copies > 0);
			const parts = [plural(copies.chunks, "chunk"), `${short(copies.behind_chunks)} behind`, `${short(copies.doubtful_chunks)} doubtful`];
			say(chunks, `${parts.join(", ")}; ${copies.is_scrubbing ? "a scrub is under way" : "no scrub is under way"}.`);
			say(button, copies.is_scrubbing ? "Stop the scrub" : "Scrub");
			attribute(button, "aria-label", `${button.textContent}: volume ${shortened(volume.name, 40)}`);
		},
	};
}

const dialog = byId("ask");
let agreed = null;
byId("ask-no").addEventListener("click", () => dialog.close());
byId("ask-yes").addEventListener("click", () => {
	dialog.close();
	agreed();
});

function confirmScrub({ name, copies }, answer) {
	const stop = copies.is_scrubbing;
	const volume = shortened(name, 60);
	say(byId("ask-text"), stop
		? `Stop the scrub of volume ${volume}? The next one begins anew.`
		: `Read all copies of volume ${volume} and compare them? It takes air and flash time until it ends.`);
	say(byId("ask-yes"), stop ? "Stop the scrub" : "Scrub");
	agreed = () => scrub({ volume: name, stop }, answer);
	dialog.showModal();
	byId("ask-no").focus();
}

async function scrub(request, answer) {
	say(answer, "Asking the gateway.");
	try {
		const options = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(request) };
		const { is_running: isRunning } = json(await ask("volumes/scrub", options));
		say(answer, isRunning ? "The scrub is under way." : "The scrub is stopped.");
	} catch ({ message }) {
		say(answer, `${message}.`);
	}
}
