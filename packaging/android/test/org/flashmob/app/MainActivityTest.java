package org.flashmob.app;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertNotNull;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertTrue;
import static org.robolectric.Shadows.shadowOf;

import android.app.AlertDialog;
import android.app.Application;
import android.content.Intent;
import android.net.NetworkCapabilities;
import android.net.Uri;
import android.os.Build;
import android.os.Looper;
import android.os.PowerManager;
import android.provider.Settings;
import android.view.InputDevice;
import android.view.MotionEvent;
import android.view.View;
import android.widget.Button;
import android.widget.EditText;
import android.widget.SeekBar;
import android.widget.Switch;
import android.widget.TextView;
import java.io.IOException;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import org.junit.After;
import org.junit.Before;
import org.junit.Test;
import org.junit.runner.RunWith;
import org.robolectric.Robolectric;
import org.robolectric.RobolectricTestRunner;
import org.robolectric.RuntimeEnvironment;
import org.robolectric.android.controller.ActivityController;
import org.robolectric.annotation.Config;
import org.robolectric.shadows.ShadowActivity;
import org.robolectric.shadows.ShadowAlertDialog;
import org.robolectric.shadows.ShadowToast;

/** What the screen does; the service is another test's. */
@RunWith(RobolectricTestRunner.class)
@Config(sdk = {23, 34})
public class MainActivityTest {
    private final Application app = RuntimeEnvironment.getApplication();
    private final Preferences preferences = new Preferences(app);
    private FakeSurroundings surroundings;
    private ActivityController<MainActivity> controller;

    @Before
    public void fresh() throws IOException {
        NodeMonitor.get().show(Snapshot.STOPPED);
        surroundings = new FakeSurroundings(app, "serve");
        Surroundings.replaceForTest(surroundings);
        Device.battery(app, 80, true);
        Device.network(app, NetworkCapabilities.TRANSPORT_WIFI);
    }

    @After
    public void close() {
        if (controller != null) {
            controller.pause().stop().destroy();
        }
        Surroundings.replaceForTest(null);
    }

    private MainActivity open(Intent intent) {
        controller = Robolectric.buildActivity(MainActivity.class, intent).setup();
        shadowOf(Looper.getMainLooper()).idle();
        return controller.get();
    }

    private MainActivity open() {
        return open(new Intent(Intent.ACTION_MAIN));
    }

    private <T extends View> T view(int id) {
        return controller.get().findViewById(id);
    }

    private String text(int id) {
        return this.<TextView>view(id).getText().toString();
    }

    private static Intent link(String text) {
        return new Intent(Intent.ACTION_VIEW, Uri.parse(text));
    }

    private static Snapshot snapshot(Supervisor.Phase phase, NodeStatus status) {
        return new Snapshot(1, phase, null, "It ended.", 3, 0, status, new Rates(1240, 5_080_000, 0), new float[] {1, 2},
                Arrays.asList("one", "two"));
    }

    @Test
    public void theButtonStartsAndStops() {
        MainActivity activity = open();
        assertEquals(activity.getString(R.string.start), text(R.id.state_button));
        view(R.id.state_button).performClick();
        Intent started = shadowOf(activity).getNextStartedService();
        assertEquals(NodeService.ACTION_START, started.getAction());
        NodeMonitor.get().show(snapshot(Supervisor.Phase.SERVING, new NodeStatus(9, 1L << 30, 2, 1, 1, 1, "")));
        assertEquals(activity.getString(R.string.stop), text(R.id.state_button));
        view(R.id.state_button).performClick();
        assertEquals(NodeService.ACTION_STOP, shadowOf(activity).getNextStartedService().getAction());
    }

    @Test
    public void figuresAndLogAreThoseOfTheNode() {
        MainActivity activity = open();
        NodeMonitor.get().show(snapshot(Supervisor.Phase.SERVING, new NodeStatus(9, 1L << 30, 2, 1, 1, 1, "")));
        assertEquals("Serving 2 gateways", text(R.id.state_title));
        assertEquals("1,240", text(R.id.state_figure));
        assertTrue(text(R.id.state_detail), text(R.id.state_detail).startsWith("5.1\u00a0MB/s read"));
        assertEquals("one\ntwo", text(R.id.log));
        NodeMonitor.get().show(snapshot(Supervisor.Phase.SERVING, new NodeStatus(9, 1L << 30, 1, 1, 1, 1, "little room is left")));
        assertTrue(text(R.id.state_detail), text(R.id.state_detail).endsWith("\nlittle room is left"));
        NodeMonitor.get().show(snapshot(Supervisor.Phase.SERVING, new NodeStatus(9, 1L << 30, 0, 1, 1, 1, "")));
        assertEquals(activity.getString(R.string.state_serving_none), text(R.id.state_title));
        assertEquals("no figure without a gateway", View.GONE, view(R.id.state_figures).getVisibility());
        NodeMonitor.get().show(snapshot(Supervisor.Phase.FAILED, null));
        assertEquals("It ended. Given up after 3 attempts.", text(R.id.state_detail));
        assertEquals("one\ntwo", text(R.id.state_log));
        assertEquals(activity.getString(R.string.start_again), text(R.id.state_button));
    }

    @Test
    public void everyPhaseHasItsWords() {
        open();
        for (Supervisor.Phase phase : Supervisor.Phase.values()) {
            NodeMonitor.get().show(snapshot(phase, null));
            assertFalse(phase + " has a title", text(R.id.state_title).isEmpty());
            assertFalse(phase + " has a sentence", text(R.id.state_detail).isEmpty());
        }
    }

    @Test
    public void aSizeIsChosenWithinWhatIsFree() {
        open();
        SizeChoice choice = new SizeChoice(surroundings.freeBytes, surroundings.totalBytes);
        SeekBar slider = view(R.id.size_slider);
        assertEquals(choice.steps.size() - 1, slider.getMax());
        assertEquals("half of it at first", choice.usualBytes(), preferences.sizeBytes());
        for (int i = 0; i < 100; i++) {
            view(R.id.size_more).performClick();
        }
        assertEquals(32L << 30, preferences.sizeBytes());
        assertFalse(view(R.id.size_more).isEnabled());
        view(R.id.size_less).performClick();
        assertEquals(24L << 30, preferences.sizeBytes());
        assertEquals("24\u00a0GiB", text(R.id.size_figure));
        assertTrue(slider.getContentDescription().toString().contains("24"));
    }

    @Test
    public void withoutRoomItCannotBeStarted() {
        surroundings.freeBytes = 1L << 30;
        MainActivity activity = open();
        assertFalse(view(R.id.state_button).isEnabled());
        assertEquals(activity.getString(R.string.size_none), text(R.id.size_figure));
    }

    @Test
    public void anExtentKeepsItsSizeUntilItIsDeleted() throws IOException {
        surroundings.freeBytes = 1L << 30;
        Files.write(surroundings.data().toPath(), new byte[2 << 20]);
        Files.write(surroundings.identity().toPath(), new byte[1]);
        Files.write(surroundings.key().toPath(), new byte[1]);
        preferences.setKeysWanted(true);
        open();
        assertEquals("2\u00a0MiB", text(R.id.size_figure));
        assertEquals(View.GONE, view(R.id.size_chooser).getVisibility());
        assertTrue("it is served even on a full device", view(R.id.state_button).isEnabled());
        view(R.id.delete).performClick();
        assertTrue("not without being asked", surroundings.hasData());
        ShadowAlertDialog.getLatestAlertDialog().getButton(AlertDialog.BUTTON_POSITIVE).performClick();
        shadowOf(Looper.getMainLooper()).idle();
        assertFalse(surroundings.hasData());
        assertFalse(surroundings.identity().exists());
        assertFalse("a key without its extent is of no use", surroundings.key().exists());
        assertFalse(preferences.areKeysWanted());
    }

    @Test
    public void theDataOfARunningNodeCannotBeDeleted() throws IOException {
        Files.write(surroundings.data().toPath(), new byte[2 << 20]);
        open();
        NodeMonitor.get().show(snapshot(Supervisor.Phase.SERVING, null));
        assertFalse(view(R.id.delete).isEnabled());
    }

    @Test
    public void aLinkIsFollowedOnlyAfterAsking() {
        open(link("flashmob://join/192.168.1.5:10810"));
        AlertDialog dialog = ShadowAlertDialog.getLatestAlertDialog();
        assertTrue(shadowOf(dialog).getMessage().toString().startsWith("192.168.1.5:10810 will be told"));
        assertEquals("", preferences.join());
        dialog.getButton(AlertDialog.BUTTON_POSITIVE).performClick();
        shadowOf(Looper.getMainLooper()).idle();
        assertEquals("192.168.1.5:10810", preferences.join());
        assertEquals("192.168.1.5:10810", text(R.id.gateway));
    }

    @Test
    public void aLinkToAClusterWithKeysShowsWhichAndIsNotKept() {
        preferences.setJoin("192.168.1.5:10810");
        String link = "flashmob://join/192.168.1.5:7413#T0fcxEoNHvlPR9zESg0e-U9H3MRKDR75T0fcxEoNHvk.AAECAwQFBgcICQoLDA0ODw";
        MainActivity activity = open(link(link));
        AlertDialog dialog = ShadowAlertDialog.getLatestAlertDialog();
        String message = shadowOf(dialog).getMessage().toString();
        assertTrue(message, message.startsWith("Cluster 4f47dcc44a0d1ef9, by the gateway at 192.168.1.5:7413."));
        assertFalse(message, message.contains("AAECAwQ"));
        assertNull("not without being asked", Enrolment.link());
        dialog.getButton(AlertDialog.BUTTON_POSITIVE).performClick();
        shadowOf(Looper.getMainLooper()).idle();
        assertEquals(link, Enrolment.link());
        assertEquals(NodeService.ACTION_START, shadowOf(activity).getNextStartedService().getAction());
        assertEquals("192.168.1.5:10810", preferences.join());
        assertTrue(preferences.areKeysWanted());
        Enrolment.heard("another", "given to cluster 4f47dcc44a0d1ef9");
        assertNotNull(Enrolment.link());
        Enrolment.heard(Enrolment.link(), "given to cluster 4f47dcc44a0d1ef9");
    }

    @Test
    public void nothingIsAgreedToBelowAWindowOfAnotherApp() {
        String link = "flashmob://join/192.168.1.5:7413#T0fcxEoNHvlPR9zESg0e-U9H3MRKDR75T0fcxEoNHvk.AAECAwQFBgcICQoLDA0ODw";
        MainActivity activity = open(link(link));
        AlertDialog dialog = ShadowAlertDialog.getLatestAlertDialog();
        for (int flag : new int[] {MotionEvent.FLAG_WINDOW_IS_OBSCURED, MotionEvent.FLAG_WINDOW_IS_PARTIALLY_OBSCURED}) {
            ShadowToast.reset();
            touch(dialog.getButton(AlertDialog.BUTTON_POSITIVE), flag);
            assertNull(Enrolment.link());
            assertTrue(dialog.isShowing());
            assertEquals(activity.getString(R.string.covered), ShadowToast.getTextOfLatestToast());
        }
        touch(dialog.getButton(AlertDialog.BUTTON_POSITIVE), 0);
        assertEquals(link, Enrolment.link());
        Enrolment.heard(link, "given to cluster 4f47dcc44a0d1ef9");
    }

    /** A finger on the middle of a view, and off again. */
    private static void touch(View view, int flags) {
        MotionEvent.PointerProperties pointer = new MotionEvent.PointerProperties();
        MotionEvent.PointerCoords place = new MotionEvent.PointerCoords();
        place.x = view.getWidth() / 2f;
        place.y = view.getHeight() / 2f;
        for (int action : new int[] {MotionEvent.ACTION_DOWN, MotionEvent.ACTION_UP}) {
            MotionEvent event = MotionEvent.obtain(0, 0, action, 1, new MotionEvent.PointerProperties[] {pointer},
                    new MotionEvent.PointerCoords[] {place}, 0, 0, 1, 1, 0, 0, InputDevice.SOURCE_TOUCHSCREEN, flags);
            view.dispatchTouchEvent(event);
            event.recycle();
        }
        shadowOf(Looper.getMainLooper()).idle();
    }

    @Test
    public void aLinkWithASecretThatIsTypedIsAskedAboutAndNotShown() {
        MainActivity activity = open();
        NodeMonitor.get().show(snapshot(Supervisor.Phase.SERVING, null));
        EditText address = view(R.id.gateway);
        address.setText("flashmob://join/192.168.1.5:7413#T0fcxEoNHvlPR9zESg0e-U9H3MRKDR75T0fcxEoNHvk.AAECAwQFBgcICQoLDA0ODw");
        view(R.id.gateway_keep).performClick();
        assertEquals("", text(R.id.gateway));
        ShadowAlertDialog.getLatestAlertDialog().getButton(AlertDialog.BUTTON_POSITIVE).performClick();
        shadowOf(Looper.getMainLooper()).idle();
        assertEquals(NodeService.ACTION_RESTART, shadowOf(activity).getNextStartedService().getAction());
        assertEquals("", preferences.join());
        assertTrue(preferences.areKeysWanted());
        Enrolment.heard("another", "given to cluster 4f47dcc44a0d1ef9");
        assertNotNull(Enrolment.link());
        Enrolment.heard(Enrolment.link(), "given to cluster 4f47dcc44a0d1ef9");
        address.setText("flashmob://join/192.168.1.5:7413#cut");
        view(R.id.gateway_keep).performClick();
        String message = shadowOf(ShadowAlertDialog.getLatestAlertDialog()).getMessage().toString();
        assertEquals(activity.getString(R.string.address_bad_code), message);
        assertNull(Enrolment.link());
    }

    @Test
    public void aLinkOfAStrangeNetworkSaysSo() {
        open();
        controller.newIntent(link("flashmob://join/flashmob.example.org:80"));
        String message = shadowOf(ShadowAlertDialog.getLatestAlertDialog()).getMessage().toString();
        assertTrue(message, message.contains("not on a network like yours"));
    }

    @Test
    public void aBadLinkIsRefused() {
        MainActivity activity = open(link("flashmob://join/a%20b:80"));
        AlertDialog dialog = ShadowAlertDialog.getLatestAlertDialog();
        assertEquals(activity.getString(R.string.address_bad_host), shadowOf(dialog).getMessage().toString());
        assertEquals("", preferences.join());
    }

    @Test
    public void aTypedAddressIsCheckedAndReachesARunningNode() {
        MainActivity activity = open();
        NodeMonitor.get().show(snapshot(Supervisor.Phase.SERVING, null));
        EditText address = view(R.id.gateway);
        address.setText("192.168.1.5");
        view(R.id.gateway_keep).performClick();
        assertEquals(activity.getString(R.string.address_no_port), text(R.id.gateway_problem));
        assertEquals(View.VISIBLE, view(R.id.gateway_problem).getVisibility());
        assertEquals("", preferences.join());
        assertNull(shadowOf(activity).getNextStartedService());
        address.setText("flashmob://join/192.168.1.5:10810");
        view(R.id.gateway_keep).performClick();
        assertEquals("192.168.1.5:10810", preferences.join());
        assertEquals(View.GONE, view(R.id.gateway_problem).getVisibility());
        assertEquals(NodeService.ACTION_RESTART, shadowOf(activity).getNextStartedService().getAction());
    }

    private void opensPage(MainActivity activity, String url) {
        view(R.id.gateway_page).performClick();
        Intent opened = shadowOf(activity).getNextStartedActivity();
        assertEquals(Intent.ACTION_VIEW, opened.getAction());
        assertEquals(Uri.parse(url), opened.getData());
    }

    @Test
    public void thePageOfTheGatewayOpensInABrowser() {
        preferences.setJoin("192.168.1.5:7410");
        MainActivity activity = open();
        assertEquals(View.VISIBLE, view(R.id.gateway_page).getVisibility());
        opensPage(activity, "http://192.168.1.5:7410/");
        preferences.setKeysWanted(true);
        opensPage(activity, "https://192.168.1.5:7410/");
    }

    @Test
    public void thePageFollowsTheAddressThatIsKept() {
        MainActivity activity = open();
        assertEquals(View.GONE, view(R.id.gateway_page).getVisibility());
        EditText address = view(R.id.gateway);
        address.setText("192.168.1.5");
        view(R.id.gateway_keep).performClick();
        assertEquals("a bad address is not kept", View.GONE, view(R.id.gateway_page).getVisibility());
        address.setText("[fd00::1]:7410");
        assertEquals("typed is not kept", View.GONE, view(R.id.gateway_page).getVisibility());
        view(R.id.gateway_keep).performClick();
        assertEquals(View.VISIBLE, view(R.id.gateway_page).getVisibility());
        opensPage(activity, "http://[fd00::1]:7410/");
        address.setText("");
        view(R.id.gateway_keep).performClick();
        assertEquals(View.GONE, view(R.id.gateway_page).getVisibility());
    }

    @Test
    public void withoutABrowserItSaysSo() {
        preferences.setJoin("192.168.1.5:7410");
        MainActivity activity = open();
        shadowOf(app).checkActivities(true);
        view(R.id.gateway_page).performClick();
        assertEquals(activity.getString(R.string.browser_none), ShadowToast.getTextOfLatestToast());
        assertNull(shadowOf(activity).getNextStartedActivity());
    }

    @Test
    public void notificationsAreAskedForAndNotNeeded() {
        shadowOf(app).denyPermissions("android.permission.POST_NOTIFICATIONS");
        MainActivity activity = open();
        boolean asks = Build.VERSION.SDK_INT >= Build.VERSION_CODES.TIRAMISU;
        assertEquals(asks ? View.VISIBLE : View.GONE, view(R.id.advice_notifications).getVisibility());
        view(R.id.state_button).performClick();
        ShadowActivity.PermissionsRequest request = shadowOf(activity).getLastRequestedPermission();
        if (asks) {
            assertEquals(Collections.singletonList("android.permission.POST_NOTIFICATIONS"), Arrays.asList(request.requestedPermissions));
        } else {
            assertNull(request);
        }
        if (asks) {
            view(R.id.advice_notifications).findViewById(R.id.advice_button).performClick();
            List<String> opened = new ArrayList<>();
            for (Intent next = shadowOf(activity).getNextStartedActivity(); next != null; next = shadowOf(activity).getNextStartedActivity()) {
                opened.add(next.getAction());
            }
            assertTrue(opened.toString(), opened.contains(Settings.ACTION_APP_NOTIFICATION_SETTINGS));
        }
        assertEquals("started all the same", NodeService.ACTION_START, shadowOf(activity).getNextStartedService().getAction());
    }

    @Test
    public void theSystemIsAskedForTheExemption() {
        MainActivity activity = open();
        Button allow = view(R.id.advice_exempt).findViewById(R.id.advice_button);
        assertEquals(View.VISIBLE, allow.getVisibility());
        allow.performClick();
        Intent asked = shadowOf(activity).getNextStartedActivity();
        assertEquals(Settings.ACTION_REQUEST_IGNORE_BATTERY_OPTIMIZATIONS, asked.getAction());
        assertEquals("package:org.flashmob.app", asked.getDataString());
        shadowOf(app.getSystemService(PowerManager.class)).setIgnoringBatteryOptimizations("org.flashmob.app", true);
        Device.battery(app, 79, true);
        assertEquals(View.GONE, allow.getVisibility());
    }

    @Test
    public void adviceFollowsTheDevice() {
        MainActivity activity = open();
        TextView power = view(R.id.advice_power).findViewById(R.id.advice_title);
        assertEquals(activity.getString(R.string.advice_power_good), power.getText().toString());
        Device.battery(app, 41, false);
        assertEquals("On battery, 41 %", power.getText().toString());
        Device.network(app, NetworkCapabilities.TRANSPORT_CELLULAR);
        TextView network = view(R.id.advice_network).findViewById(R.id.advice_title);
        assertEquals(activity.getString(R.string.advice_network_bad), network.getText().toString());
    }

    @Test
    public void switchesReachARunningNode() {
        MainActivity activity = open();
        NodeMonitor.get().show(snapshot(Supervisor.Phase.PAUSED, null));
        this.<Switch>view(R.id.pause_on_low_battery).performClick();
        assertFalse(preferences.isPausedOnLowBattery());
        assertEquals(NodeService.ACTION_LOOK, shadowOf(activity).getNextStartedService().getAction());
    }

    @Test
    public void aNameIsMadeHarmlessAndKept() {
        open();
        EditText name = view(R.id.name);
        name.setText("K\u00fcche\u202e");
        controller.pause().stop();
        assertEquals("K-che-", preferences.name());
        controller.restart().start().resume();
    }

    @Test
    public void touchTargetsAreLargeAndIconsAreNamed() {
        preferences.setJoin("192.168.1.5:7410");
        open();
        check(view(android.R.id.content));
    }

    private void check(View view) {
        float touch = 48 * view.getResources().getDisplayMetrics().density;
        boolean onlySelectable = view instanceof TextView && ((TextView) view).isTextSelectable();
        if (view.isClickable() && view.isShown() && !onlySelectable && !(view instanceof SeekBar)) {
            assertTrue(view + " is " + view.getHeight() + " high", view.getHeight() >= touch);
        }
        if (view instanceof android.widget.ImageButton) {
            assertNotNull(view + " has a description", view.getContentDescription());
        }
        if (view instanceof android.view.ViewGroup) {
            android.view.ViewGroup group = (android.view.ViewGroup) view;
            for (int i = 0; i < group.getChildCount(); i++) {
                check(group.getChildAt(i));
            }
        }
    }
}
