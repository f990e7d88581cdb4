package org.flashmob.app;

import static org.flashmob.app.Supervisor.Phase.FAILED;
import static org.flashmob.app.Supervisor.Phase.PAUSED;
import static org.flashmob.app.Supervisor.Phase.SERVING;
import static org.flashmob.app.Supervisor.Phase.STOPPED;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertNotNull;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertTrue;
import static org.robolectric.Shadows.shadowOf;

import android.app.Application;
import android.app.Notification;
import android.app.NotificationManager;
import android.content.Context;
import android.content.Intent;
import android.net.NetworkCapabilities;
import android.os.Build;
import android.os.Looper;
import android.os.PowerManager;
import java.io.File;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.json.JSONArray;
import org.json.JSONObject;
import org.junit.After;
import org.junit.Assume;
import org.junit.Before;
import org.junit.Test;
import org.junit.runner.RunWith;
import org.robolectric.Robolectric;
import org.robolectric.RobolectricTestRunner;
import org.robolectric.RuntimeEnvironment;
import org.robolectric.android.controller.ServiceController;
import org.robolectric.annotation.Config;
import org.robolectric.shadows.ShadowPowerManager;

/** The service around a process that is one: started, ended and watched as on a device. */
@RunWith(RobolectricTestRunner.class)
@Config(sdk = {23, 34})
public class NodeServiceTest {
    private final Application app = RuntimeEnvironment.getApplication();
    private final Preferences preferences = new Preferences(app);
    private FakeSurroundings surroundings;
    private ServiceController<NodeService> service;

    @Before
    public void aChargedDeviceOnWifi() throws Exception {
        NodeMonitor.get().show(Snapshot.STOPPED);
        NodeMonitor.get().setWatched(true);
        surroundings = new FakeSurroundings(app, "serve");
        Surroundings.replaceForTest(surroundings);
        preferences.setSizeBytes(1L << 30);
        preferences.setName("nexus");
        Device.battery(app, 80, true);
        Device.network(app, NetworkCapabilities.TRANSPORT_WIFI);
        service = Robolectric.buildService(NodeService.class).create();
    }

    @After
    public void nothingIsLeft() throws Exception {
        service.destroy();
        Device.await("the end of every process", () -> surroundings.notes("pids").stream().noneMatch(pid -> new File("/proc/" + pid).exists()));
        Surroundings.replaceForTest(null);
    }

    private void command(String action) {
        service.get().onStartCommand(action == null ? null : new Intent(action), 0, 1);
    }

    private void serve() throws Exception {
        command(NodeService.ACTION_START);
        Device.awaitPhase(SERVING);
    }

    private static boolean awake() {
        PowerManager.WakeLock lock = ShadowPowerManager.getLatestWakeLock();
        return lock != null && lock.isHeld();
    }

    private boolean inForeground() {
        return shadowOf(service.get()).getLastForegroundNotification() != null && !shadowOf(service.get()).isForegroundStopped();
    }

    @Test
    public void startServesInTheForegroundAndAwake() throws Exception {
        preferences.setJoin("192.168.1.5:10810");
        serve();
        assertTrue(inForeground());
        assertTrue(awake());
        assertTrue("remembered for a reboot", preferences.isServingWanted());
        JSONArray noted = new JSONArray(surroundings.notes("starts").get(0));
        List<String> arguments = new ArrayList<>();
        for (int i = 0; i < noted.length(); i++) {
            arguments.add(noted.getString(i));
        }
        assertEquals(NodeCommand.of(surroundings.binary(), surroundings.data(), 1L << 30, surroundings.listenPort(), surroundings.adminPort(), surroundings.deviceState(),
                "nexus", "192.168.1.5:10810", true, false), arguments);
        Device.await("two gateways and their rate",
                () -> NodeMonitor.get().latest().status.gateways == 2 && NodeMonitor.get().latest().rates.requestsPerSecond > 0);
    }

    @Test
    public void aLinkWithASecretGoesToTheNodeByItsStandardInputAlone() throws Exception {
        String link = "flashmob://join/192.168.1.5:7413#" + new String(new char[43]).replace('\0', 'B') + "." + new String(new char[22]).replace('\0', 'S');
        Enrolment.accept(link);
        preferences.setKeysWanted(true);
        surroundings.mode("enroll");
        command(NodeService.ACTION_START);
        Device.await("the digits", () -> "482 913".equals(Enrolment.digits(NodeMonitor.get().latest().log)));
        assertEquals(java.util.Collections.singletonList(link), surroundings.notes("input"));
        assertEquals("Confirm this device at the gateway, which must show 482 913 for it.", new Words(app.getResources()).detail(NodeMonitor.get().latest()));
        assertTrue(surroundings.notes("starts").get(0).endsWith("\"--token-file\", \"-\"]"));
        assertFalse(surroundings.notes("starts").get(0).contains("SSS"));
        surroundings.mode("serve");
        Device.awaitPhase(SERVING);
        assertNull("it is over", Enrolment.link());
        assertNull(Enrolment.digits(NodeMonitor.get().latest().log));
        assertFalse(NodeMonitor.get().latest().log.toString().contains("SSS"));
        assertFalse(preferences.join().contains("#"));
        // The next start needs none.
        command(NodeService.ACTION_RESTART);
        Device.await("another start", () -> surroundings.notes("starts").size() == 2);
        assertFalse(surroundings.notes("starts").get(1).contains("--token-file"));
        assertFalse("never without keys", surroundings.notes("starts").toString().contains("--insecure"));
        Device.awaitPhase(SERVING);
    }

    @Test
    public void aLinkThatIsRefusedIsNotTriedAgain() throws Exception {
        Enrolment.accept("flashmob://join/192.168.1.5:7413#" + new String(new char[43]).replace('\0', 'B') + "." + new String(new char[22]).replace('\0', 'S'));
        surroundings.mode("refused");
        command(NodeService.ACTION_START);
        Device.awaitPhase(FAILED);
        assertNull(Enrolment.link());
        assertEquals(app.getString(R.string.death_not_enrolled), NodeMonitor.get().latest().death);
        assertEquals(1, surroundings.notes("input").size());
    }

    @Test
    public void theDevicesStateIsWrittenForTheNode() throws Exception {
        serve();
        JSONObject state = new JSONObject(new String(Files.readAllBytes(surroundings.deviceState().toPath()), "UTF-8"));
        assertEquals(80, state.getInt("battery_percent"));
        assertTrue(state.getBoolean("charging"));
        assertEquals(31.5, state.getDouble("battery_celsius"), 0);
        assertEquals("wifi", state.getString("network"));
        assertTrue(Math.abs(System.currentTimeMillis() - state.getLong("written_at_unix_ms")) < 120_000);
        Device.battery(app, 60, false);
        Device.await("the battery in the file", () -> new String(Files.readAllBytes(surroundings.deviceState().toPath()), "UTF-8")
                .contains("\"battery_percent\":60,\"charging\":false"));
    }

    @Test
    public void stopLetsTheNodeFinish() throws Exception {
        serve();
        command(NodeService.ACTION_STOP);
        Device.awaitPhase(STOPPED);
        assertEquals("asked to, not killed", 1, surroundings.notes("ends").size());
        String log = NodeMonitor.get().latest().log.toString();
        assertTrue("heard to the end: " + log, log.endsWith("stopped]"));
        assertFalse(inForeground());
        assertTrue(shadowOf(service.get()).isStoppedBySelf());
        assertFalse(awake());
        assertFalse("and not after a reboot", preferences.isServingWanted());
    }

    @Test
    public void oneThatDoesNotEndIsKilled() throws Exception {
        surroundings.mode("deaf");
        serve();
        command(NodeService.ACTION_STOP);
        Device.awaitPhase(STOPPED);
        assertTrue(surroundings.notes("ends").isEmpty());
        assertTrue(NodeMonitor.get().latest().log.toString(), NodeMonitor.get().latest().log.toString().contains("killed"));
    }

    @Test
    public void aDeadNodeComesBack() throws Exception {
        surroundings.mode("die-once");
        serve();
        assertEquals(2, surroundings.notes("starts").size());
        assertEquals(1, NodeMonitor.get().latest().failures);
    }

    @Test
    public void oneThatDiesAgainAndAgainIsGivenUpWithItsLastWords() throws Exception {
        surroundings.mode("die");
        command(NodeService.ACTION_START);
        Device.awaitPhase(FAILED);
        Snapshot last = NodeMonitor.get().latest();
        assertEquals(3, surroundings.notes("starts").size());
        assertEquals(app.getString(R.string.death_unknown, 3), last.death);
        assertTrue(last.log.toString(), last.log.get(last.log.size() - 1).endsWith("ERROR: the flash is worn out"));
        assertFalse(awake());
        assertFalse(inForeground());
        NotificationManager manager = (NotificationManager) app.getSystemService(Context.NOTIFICATION_SERVICE);
        Notification notice = shadowOf(manager).getNotification(Notices.TROUBLE_ID);
        assertEquals(last.death, notice.extras.getString(Notification.EXTRA_TEXT));
    }

    @Test
    public void aFullDeviceIsSaidInPlainWords() throws Exception {
        surroundings.mode("full");
        command(NodeService.ACTION_START);
        Device.awaitPhase(FAILED);
        assertEquals(app.getString(R.string.death_no_space), NodeMonitor.get().latest().death);
    }

    @Test
    public void aMissingBinaryIsSaidInPlainWords() throws Exception {
        assertTrue(surroundings.binary().delete());
        command(NodeService.ACTION_START);
        Device.awaitPhase(FAILED);
        assertEquals(app.getString(R.string.death_no_binary), NodeMonitor.get().latest().death);
    }

    @Test
    public void lowBatteryPausesUntilItCharges() throws Exception {
        serve();
        Device.battery(app, 14, false);
        Device.awaitPhase(PAUSED);
        assertEquals(Supervisor.Hold.LOW_BATTERY, NodeMonitor.get().latest().hold);
        assertEquals("asked to, not killed", 1, surroundings.notes("ends").size());
        assertFalse("it may sleep", awake());
        assertTrue("but waits for the charger", inForeground());
        Device.battery(app, 14, true);
        Device.awaitPhase(SERVING);
        assertTrue(awake());
    }

    @Test
    public void whoeverWantsItServesOnLowBattery() throws Exception {
        preferences.setPausedOnLowBattery(false);
        Device.battery(app, 5, false);
        serve();
    }

    @Test
    public void withLowBatteryItDoesNotEvenStart() throws Exception {
        Device.battery(app, 14, false);
        command(NodeService.ACTION_START);
        Device.awaitPhase(PAUSED);
        assertTrue(surroundings.notes("starts").isEmpty());
    }

    @Test
    public void aShortGapOfWifiIsSatOut() throws Exception {
        serve();
        Device.network(app, NetworkCapabilities.TRANSPORT_CELLULAR);
        shadowOf(Looper.getMainLooper()).idleFor(Duration.ofMillis(Holds.NETWORK_PATIENCE_MS - 1));
        Device.network(app, NetworkCapabilities.TRANSPORT_WIFI);
        shadowOf(Looper.getMainLooper()).idleFor(Duration.ofMillis(Holds.NETWORK_PATIENCE_MS));
        command(NodeService.ACTION_LOOK);
        Device.awaitPhase(SERVING);
        assertTrue(surroundings.notes("ends").isEmpty());
        assertEquals(1, surroundings.notes("starts").size());
    }

    @Test
    public void withoutWifiItPausesAndComesBack() throws Exception {
        serve();
        Device.network(app, NetworkCapabilities.TRANSPORT_CELLULAR);
        shadowOf(Looper.getMainLooper()).idleFor(Duration.ofMillis(Holds.NETWORK_PATIENCE_MS + 1));
        Device.awaitPhase(PAUSED);
        assertEquals(Supervisor.Hold.NO_WIFI, NodeMonitor.get().latest().hold);
        Device.network(app, NetworkCapabilities.TRANSPORT_ETHERNET);
        Device.awaitPhase(SERVING);
    }

    @Test
    public void deniedNotificationsDoNotKeepItFromServing() throws Exception {
        shadowOf(app).denyPermissions("android.permission.POST_NOTIFICATIONS");
        NotificationManager manager = (NotificationManager) app.getSystemService(Context.NOTIFICATION_SERVICE);
        if (Build.VERSION.SDK_INT >= Build.VERSION_CODES.N) {
            shadowOf(manager).setNotificationsEnabled(false);
        }
        serve();
    }

    @Test
    public void afterAKillByAndroidItGoesOn() throws Exception {
        preferences.setServingWanted(true);
        command(null);
        Device.awaitPhase(SERVING);
    }

    @Test
    public void afterAKillWhileItStoppedItStaysStopped() {
        preferences.setServingWanted(false);
        command(null);
        assertTrue(shadowOf(service.get()).isStoppedBySelf());
        assertFalse("and not after a reboot", preferences.isServingWanted());
        assertEquals(STOPPED, NodeMonitor.get().latest().phase);
    }

    @Test
    public void aServiceThatTheSystemEndsIsNotShownAsServing() throws Exception {
        serve();
        service.destroy();
        assertEquals(STOPPED, NodeMonitor.get().latest().phase);
        service = Robolectric.buildService(NodeService.class).create();
    }

    @Test
    public void newSettingsReachARunningNode() throws Exception {
        serve();
        preferences.setJoin("192.168.1.9:10810");
        command(NodeService.ACTION_RESTART);
        Device.await("a second process", () -> surroundings.notes("starts").size() == 2);
        Device.awaitPhase(SERVING);
        assertTrue(surroundings.notes("starts").get(1).contains("192.168.1.9:10810"));
        assertEquals(0, NodeMonitor.get().latest().failures);
    }

    @Test
    public void stopAndStartInOneBreathServes() throws Exception {
        serve();
        command(NodeService.ACTION_STOP);
        command(NodeService.ACTION_START);
        Device.await("a second process", () -> surroundings.notes("starts").size() == 2);
        Device.awaitPhase(SERVING);
        assertTrue(inForeground());
        assertFalse(shadowOf(service.get()).isStoppedBySelf());
    }

    @Test
    public void aNodeOfAnEarlierLifeIsEnded() throws Exception {
        // Not the fake, for the command line of a script begins with its interpreter.
        File program = new File(surroundings.folder, "libflashmob.so");
        Files.copy(Paths.get("/bin/sleep"), program.toPath());
        assertTrue(program.setExecutable(true));
        Process earlier = new ProcessBuilder(program.getPath(), "600").start();
        Leftovers.end(new File("/proc"), program.getPath(), surroundings.signals(), 60_000);
        assertEquals("ended by the signal that asks", 128 + Signals.TERMINATE, earlier.waitFor());
    }

    @Test
    public void rebootStartsItOnlyIfItServedBefore() {
        BootReceiver receiver = new BootReceiver();
        receiver.onReceive(app, new Intent(Intent.ACTION_BOOT_COMPLETED));
        assertNull(shadowOf(app).getNextStartedService());
        preferences.setServingWanted(true);
        receiver.onReceive(app, new Intent("org.example.OTHER"));
        assertNull(shadowOf(app).getNextStartedService());
        for (String action : List.of(Intent.ACTION_BOOT_COMPLETED, Intent.ACTION_MY_PACKAGE_REPLACED)) {
            receiver.onReceive(app, new Intent(action));
            Intent started = shadowOf(app).getNextStartedService();
            assertNotNull(action, started);
            assertEquals(NodeService.class.getName(), started.getComponent().getClassName());
            assertEquals(NodeService.ACTION_START, started.getAction());
        }
    }

    /** With REAL_NODE=PROGRAM: that it understands what the app says, and the app what it answers. */
    @Test
    public void theRealNodeServes() throws Exception {
        String program = System.getProperty("flashmob.realNode");
        Assume.assumeTrue("REAL_NODE is not set", program != null);
        surroundings.program(new File(program));
        preferences.setSizeBytes(256L << 20);
        preferences.setJoin("127.0.0.1:9");
        serve();
        assertEquals(256L << 20, surroundings.data().length());
        assertEquals(256L << 20, NodeMonitor.get().latest().status.sizeBytes);
        assertEquals(0, NodeMonitor.get().latest().status.gateways);
        command(NodeService.ACTION_STOP);
        Device.awaitPhase(STOPPED);
        String log = NodeMonitor.get().latest().log.toString();
        assertTrue(log, log.endsWith("stopped]"));
        assertTrue("the extent's identity is kept", surroundings.identity().exists());
    }
}
