// Polls the gateway each second while the page is seen, and draws what it says.

import { drawBatches } from "./batches.js";
import { drawCards } from "./cards.js";
import { drawCopies } from "./copies.js";
import { byId, show } from "./dom.js";
import { brief, longTime } from "./format.js";
import { drawHeat } from "./heatmap.js";
import { History } from "./history.js";
import { ask, hasToken, json, useToken } from "./net.js";
import { drawSlowest } from "./slowest.js";
import { drawFacts, drawState, sayTrouble } from "./state.js";
import "./trace.js";

// A busy port is a matter of a moment; that is said only when it lasts.
const BUSY_MS = 3000;

const history = new History();
let heardAt = performance.now();
let timer = null;
let isAsking = false;

async function poll() {
	timer = null;
	if (isAsking || document.hidden) return;
	isAsking = true;
	const began = performance.now();
	let wait = 1000;
	try {
		const known = history.last;
		const answer = await ask(history.slots.length ? `live?since=${known.next_second}` : "live");
		show(byId("token-form"), answer.status === 401 || (answer.status === 403 && hasToken()));
		history.add(json(answer), performance.now());
		heardAt = performance.now();
		if (known && known.start !== history.last.start) {
			// Its seconds began anew: what was asked for is not all that it has.
			history.slots = [];
			wait = 0;
		}
		sayTrouble(null);
		draw();
	} catch (error) {
		if (!error.told) console.error(error);
		const ago = performance.now() - heardAt;
		wait = Math.max(wait, 1000 * Math.min(error.retry ?? 0, 10));
		if (!error.isBusy || ago > BUSY_MS) sayTrouble(error.message, longTime(ago / 1000), history.last !== null);
	}
	isAsking = false;
	pollIn(wait - (performance.now() - began));
}

function pollIn(ms) {
	clearTimeout(timer);
	timer = document.hidden ? null : setTimeout(poll, Math.max(0, ms));
}

function draw() {
	const live = history.last;
	const lately = live.nodes.map((_, node) => history.lately(node));
	const picture = { history, live, lately, names: brief(live.nodes), packets: history.packets(), shares: history.shares(lately) };
	for (const part of [drawState, drawFacts, drawCards, drawHeat, drawSlowest, drawCopies, drawBatches]) part(picture);
}

document.addEventListener("visibilitychange", () => pollIn(0));
byId("token-form").addEventListener("submit", (event) => {
	event.preventDefault();
	useToken(byId("token").value.trim());
	byId("token").value = "";
	pollIn(0);
});

poll();
