package org.flashmob.app;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import org.json.JSONException;
import org.json.JSONObject;
import org.junit.Test;
import org.junit.runner.RunWith;
import org.robolectric.RobolectricTestRunner;
import org.robolectric.annotation.Config;

/** What is read from the node and written to it. */
@RunWith(RobolectricTestRunner.class)
@Config(sdk = 34)
public class NodeTextsTest {
    @Test
    public void aStatusIsRead() throws Exception {
        NodeStatus status = NodeStatus.parse("{\"uptime_seconds\":12.5,\"warnings\":[\"warm\"],\"node\":{\"size_bytes\":1073741824,\"links\":3,"
                + "\"paths\":[{\"peer\":\"10.0.0.1:5\"},{\"peer\":\"10.0.0.1:6\"},{\"peer\":\"[fd00::1]:5\"}],\"pieces\":7,\"read_bytes\":8,\"write_bytes\":9}}");
        assertEquals(2, status.gateways);
        assertEquals(7, status.requests);
        assertEquals(1L << 30, status.sizeBytes);
        assertEquals("warm", status.warning);
        assertEquals("links without addresses are of one gateway", 1, NodeStatus.parse("{\"node\":{\"links\":4}}").gateways);
        assertEquals(0, NodeStatus.parse("{\"node\":{}}").gateways);
        assertThrows(JSONException.class, () -> NodeStatus.parse("{\"gateway\":{}}"));
        assertThrows(JSONException.class, () -> NodeStatus.parse("<html>"));
    }

    @Test
    public void ratesAreOfTheTimeBetween() {
        NodeStatus before = new NodeStatus(10, 0, 1, 1_000, 4_000, 100, "");
        Rates rates = Rates.between(before, new NodeStatus(12, 0, 1, 3_000, 8_000, 100, ""));
        assertEquals(1_000, rates.requestsPerSecond, 0);
        assertEquals(2_000, rates.readBytesPerSecond, 0);
        assertEquals(0, rates.writeBytesPerSecond, 0);
        assertEquals("first look", 0, Rates.between(null, before).requestsPerSecond, 0);
        assertEquals("another process", 0, Rates.between(before, new NodeStatus(1, 0, 1, 5, 5, 5, "")).requestsPerSecond, 0);
    }

    @Test
    public void theDevicesStateHasTheFormOfTheContract() throws Exception {
        DeviceState state = new DeviceState();
        state.batteryPercent = 81;
        state.charging = true;
        state.batteryCelsius = 31.5;
        state.thermalStatus = 0;
        state.batteryExempt = true;
        state.network = DeviceState.WIFI;
        JSONObject json = new JSONObject(state.toJson(1_763_800_000_000L));
        assertEquals(new JSONObject("{\"written_at_unix_ms\":1763800000000,\"battery_percent\":81,\"charging\":true,\"battery_celsius\":31.5,"
                + "\"screen_on\":false,\"thermal_status\":0,\"power_save\":false,\"doze\":false,\"battery_exempt\":true,\"network\":\"wifi\"}").toString(),
                json.toString());
        JSONObject unknown = new JSONObject(new DeviceState().toJson(1));
        for (String absent : new String[] {"battery_percent", "charging", "battery_celsius", "thermal_status"}) {
            assertFalse(absent, unknown.has(absent));
        }
        assertEquals("none", unknown.getString("network"));
    }

    @Test
    public void aBatteryIsLowUntilItIsWellAboveTheLimit() {
        DeviceState state = new DeviceState();
        assertFalse("no battery at all", state.isBatteryLow(false));
        state.batteryPercent = 15;
        assertFalse(state.isBatteryLow(false));
        assertTrue(state.isBatteryLow(true));
        state.batteryPercent = 14;
        assertTrue(state.isBatteryLow(false));
        state.charging = true;
        assertFalse(state.isBatteryLow(true));
        state.charging = false;
        state.batteryPercent = 20;
        assertFalse(state.isBatteryLow(true));
    }

    @Test
    public void deathsHaveSentences() {
        List<String> none = Collections.emptyList();
        assertEquals(R.string.death_forbidden_call, Death.sentence(159, none));
        assertEquals(R.string.death_killed, Death.sentence(137, none));
        assertEquals(R.string.death_killed, Death.sentence(-9, none));
        assertEquals(R.string.death_no_space, Death.sentence(1, Arrays.asList("x: No space left on device (os error 28)", "stopped")));
        assertEquals(R.string.death_port_in_use, Death.sentence(1, Arrays.asList("Address already in use (os error 98)")));
        assertEquals(R.string.death_bad_argument, Death.sentence(2, Arrays.asList("error: unexpected argument '--name' found")));
        assertEquals(R.string.death_unknown, Death.sentence(3, none));
        assertEquals(R.string.death_wrong_processor, Death.sentence(new IOException("error=8, Exec format error")));
        assertEquals(R.string.death_no_binary, Death.sentence(new IOException("error=2, No such file or directory")));
        assertEquals(R.string.death_not_started, Death.sentence(new IOException("error=13, Permission denied")));
    }

    @Test
    public void theLogIsBoundedAndWithoutTheNodesOwnTime() {
        LogTail log = new LogTail();
        for (int i = 0; i < 1_000; i++) {
            log.add("[2026-11-22T07:11:15Z INFO ] line " + i);
        }
        log.add("[2026-11-22T07:11:15Z WARN ] hot");
        log.add(new String(new char[10_000]).replace('\0', 'x'));
        List<String> all = log.last(100_000);
        assertEquals(200, all.size());
        assertTrue(all.get(0), all.get(0).endsWith("  line 802"));
        assertTrue(all.get(198), all.get(198).endsWith("  WARN: hot"));
        assertTrue(all.get(199).length() < 600);
        assertEquals(2, log.last(2).size());
    }

    @Test
    public void onlyNodesOfThisAppAreLeftovers() throws Exception {
        File proc = Files.createTempDirectory("flashmob-proc").toFile();
        String binary = "/data/app/x/lib/arm64/libflashmob.so";
        cmdline(proc, "17", binary + "\0node\0--data\0x");
        cmdline(proc, "18", "org.flashmob.app\0");
        cmdline(proc, "19", "cat\0" + binary);
        cmdline(proc, "self", binary + "\0node");
        Files.createDirectories(new File(proc, "20").toPath());
        assertEquals(Collections.singletonList(17), Leftovers.find(proc, binary));
        assertTrue(Leftovers.find(new File(proc, "none"), binary).isEmpty());
    }

    private static void cmdline(File proc, String pid, String text) throws IOException {
        File folder = new File(proc, pid);
        Files.createDirectories(folder.toPath());
        Files.write(new File(folder, "cmdline").toPath(), text.getBytes(StandardCharsets.UTF_8));
    }

    @Test
    public void aProcessTellsItsNumber() {
        assertEquals(17, Signals.pid(new Named("Process[id=17]")));
        assertEquals("Android 7 and later", 18, Signals.pid(new Named("Process[pid=18, hasExited=false]")));
        assertEquals("Java 17, and what newer Androids have of it", 19, Signals.pid(new Named("Process[pid=19, exitValue=\"not exited\"]")));
        assertEquals(0, Signals.pid(new Named("java.lang.Process@1")));
    }

    @Test
    public void oneWithoutANumberIsDestroyed() {
        Named process = new Named("java.lang.Process@1");
        new Signals().terminate(process);
        assertTrue(process.destroyed);
    }

    private static final class Named extends Process {
        private final String name;
        private boolean destroyed;

        Named(String name) {
            this.name = name;
        }

        @Override
        public String toString() {
            return name;
        }

        @Override
        public java.io.OutputStream getOutputStream() {
            return null;
        }

        @Override
        public java.io.InputStream getInputStream() {
            return null;
        }

        @Override
        public java.io.InputStream getErrorStream() {
            return null;
        }

        @Override
        public int waitFor() {
            return 0;
        }

        @Override
        public int exitValue() {
            return 0;
        }

        @Override
        public void destroy() {
            destroyed = true;
        }
    }
}
