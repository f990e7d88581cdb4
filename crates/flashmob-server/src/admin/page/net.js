// Requests to the gateway: one at a time, since its port has few connections.

import { harmless } from "./format.js";

const TIMEOUT_MS = 5000;
const REFUSALS = { 401: "The gateway wants an access token", 503: "The gateway is busy" };
let token = "";
let last = Promise.resolve();

export function useToken(text) {
	// Others cannot be in a header.
	token = text.replace(/[^!-~]/g, "");
}

export const hasToken = () => token !== "";

// An error that is said to whoever looks.
const told = (message, more) => Object.assign(new Error(message), { told: true, ...more });

// {status, text, retry} of an answer.
export function ask(path, options = {}) {
	const mine = last.then(() => fetched(path, options));
	last = mine.catch(() => {});
	return mine;
}

async function fetched(path, options) {
	const abort = new AbortController();
	const timer = setTimeout(() => abort.abort(), TIMEOUT_MS);
	const headers = { ...options.headers, ...(token && { Authorization: `Bearer ${token}` }) };
	try {
		const answer = await fetch(path, { ...options, headers, cache: "no-store", signal: abort.signal });
		return { status: answer.status, text: await answer.text(), retry: Number(answer.headers.get("Retry-After")) };
	} catch {
		throw told("The gateway does not answer");
	} finally {
		clearTimeout(timer);
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
