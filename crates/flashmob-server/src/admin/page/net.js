// Requests to the gateway: one at a time, since its port has few connections.

import { say } from "./dom.js";
import { harmless } from "./format.js";

const TIMEOUT_MS = 5000;
const REFUSALS = { 401: "The gateway wants an access token", 503: "The gateway is busy" };
export const access = { token: "" };
let last = Promise.resolve();

const told = (message, more) => Object.assign(new Error(message), { told: true, ...more });

// {status, text, retry} of an answer; `request` is posted as JSON.
export function ask(path, request) {
	const mine = last.then(() => fetched(path, request));
	last = mine.catch(() => {});
	return mine;
}

async function fetched(path, request) {
	// AbortSignal.timeout is too young for old tablets.
	const abort = new AbortController();
	setTimeout(() => abort.abort(), TIMEOUT_MS);
	const options = { headers: {}, cache: "no-store", signal: abort.signal };
	if (request) Object.assign(options, { headers: { "Content-Type": "application/json" }, method: "POST", body: JSON.stringify(request) });
	if (access.token) options.headers.Authorization = `Bearer ${access.token}`;
	try {
		const answer = await fetch(path, options);
		return { status: answer.status, text: await answer.text(), retry: Number(answer.headers.get("Retry-After")) };
	} catch {
		throw told("The gateway does not answer");
	}
}

export function json({ status, text, retry }) {
	const why = REFUSALS[status] ?? `The gateway refuses (${status}): ${harmless(text.trim()).slice(0, 500)}`;
	if (status !== 200) throw told(why, { isBusy: status === 503, retry });
	try {
		return JSON.parse(text);
	} catch {
		throw told("The gateway's answer is not JSON");
	}
}

// The JSON of an answer, or nothing; `place` says why.
export async function asked(place, path, request) {
	say(place, "Asking the gateway.");
	try {
		return json(await ask(path, request));
	} catch ({ message }) {
		say(place, `${message}.`);
	}
}
