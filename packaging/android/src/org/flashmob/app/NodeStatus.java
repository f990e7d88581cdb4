package org.flashmob.app;

import java.util.HashSet;
import java.util.Set;
import org.json.JSONArray;
import org.json.JSONException;
import org.json.JSONObject;

/** What the node answers at /status, as far as the screen shows it. Counters count from the start of the process. */
final class NodeStatus {
    final double uptimeSeconds;
    final long sizeBytes;
    final int gateways;
    final long requests;
    final long readBytes;
    final long writeBytes;
    /** The first of what the node warns of; empty if it warns of nothing. */
    final String warning;

    NodeStatus(double uptimeSeconds, long sizeBytes, int gateways, long requests, long readBytes, long writeBytes, String warning) {
        this.uptimeSeconds = uptimeSeconds;
        this.sizeBytes = sizeBytes;
        this.gateways = gateways;
        this.requests = requests;
        this.readBytes = readBytes;
        this.writeBytes = writeBytes;
        this.warning = warning;
    }

    static NodeStatus parse(String text) throws JSONException {
        JSONObject report = new JSONObject(text);
        JSONObject node = report.getJSONObject("node");
        JSONArray warnings = report.optJSONArray("warnings");
        return new NodeStatus(
                report.optDouble("uptime_seconds", 0),
                node.optLong("size_bytes"),
                gateways(node),
                node.optLong("pieces"),
                node.optLong("read_bytes"),
                node.optLong("write_bytes"),
                warnings == null ? "" : warnings.optString(0, ""));
    }

    /** A gateway has several links to a node; they come from one address. */
    private static int gateways(JSONObject node) {
        Set<String> hosts = new HashSet<>();
        JSONArray paths = node.optJSONArray("paths");
        for (int i = 0; paths != null && i < paths.length(); i++) {
            JSONObject path = paths.optJSONObject(i);
            String peer = path == null ? "" : path.optString("peer");
            int colon = peer.lastIndexOf(':');
            hosts.add(colon < 0 ? peer : peer.substring(0, colon));
        }
        return hosts.isEmpty() ? Math.min(node.optInt("links"), 1) : hosts.size();
    }
}
