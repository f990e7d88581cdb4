// Asks the gateway each second while the page is seen, and draws it.

import { drawActions } from "./actions.js";
import { drawBatches } from "./batches.js";
import { drawCards } from "./cards.js";
import { drawCopies } from "./copies.js";
import { byId, show } from "./dom.js";
import { brief, longTime } from "./format.js";
import { drawHeat } from "./heatmap.js";
import { History } from "./history.js";
import { access, ask, json } from "./net.js";
import { drawSlowest } from "./slowest.js";
import { drawFacts, drawState, sayTrouble } from "./state.js";
import "./trace.js";

// A port is busy for a moment: only what lasts is said.
const BUSY_MS = 3000;

const history = new History();
let heardAt = performance.now();
let timer;
let isAsking = false;

async function poll() {
	if (isAsking || document.hidden) return;
	isAsking = true;
	const began = performance.now();
	let wait = 1000;
	try {
		const known = history.last;
		const answer = await ask(history.slots.length ? `live?since=${known.next_second}` : "live");
		show(byId("token-form"), answer.status === 401 || (answer.status === 403 && access.token !== ""));
		history.add(json(answer), performance.now());
		heardAt = performance.now();
		if (known && known.start !== history.last.start) {
			// Its seconds began anew: what was asked for is not all that it has.
			history.slots = [];
			wait = 0;
		}
		sayTrouble();
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
	if (!document.hidden) timer = setTimeout(poll, ms);
}

function draw() {
	const live = history.last;
	const lately = live.nodes.map((_, node) => history.lately(node));
	const picture = { history, live, lately, names: brief(live.nodes), packets: history.packets(), shares: history.shares(lately) };
	for (const part of [drawState, drawFacts, drawCards, drawActions, drawHeat, drawSlowest, drawCopies, drawBatches]) part(picture);
}

document.onvisibilitychange = () => pollIn(0);
byId("token-form").onsubmit = (event) => {
	event.preventDefault();
	access.token = byId("token").value.replace(/[^!-~]/g, "");
	byId("token").value = "";
	pollIn(0);
};

poll();
