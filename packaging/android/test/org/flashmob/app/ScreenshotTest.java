package org.flashmob.app;

import static org.junit.Assert.assertTrue;
import static org.robolectric.Shadows.shadowOf;

import android.app.Application;
import android.graphics.Bitmap;
import android.graphics.Canvas;
import android.net.NetworkCapabilities;
import android.os.Looper;
import android.os.PowerManager;
import android.view.View;
import java.io.File;
import java.io.FileOutputStream;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.junit.After;
import org.junit.Before;
import org.junit.Test;
import org.junit.runner.RunWith;
import org.robolectric.Robolectric;
import org.robolectric.RobolectricTestRunner;
import org.robolectric.RuntimeEnvironment;
import org.robolectric.annotation.Config;
import org.robolectric.annotation.GraphicsMode;

/** Draws the screen as Android draws it, to be looked at: target/android/screenshots. It fails only if nothing is drawn. */
@RunWith(RobolectricTestRunner.class)
@GraphicsMode(GraphicsMode.Mode.NATIVE)
@Config(sdk = 34)
public class ScreenshotTest {
    private static final String PHONE = "w411dp-h891dp-port-xhdpi";
    private static final String TABLET = "w960dp-h600dp-land-xhdpi";

    private final Application app = RuntimeEnvironment.getApplication();
    private FakeSurroundings surroundings;

    @Before
    public void device() throws Exception {
        surroundings = new FakeSurroundings(app, "serve");
        surroundings.freeBytes = 23_400L << 20;
        surroundings.totalBytes = 32L << 30;
        Surroundings.replaceForTest(surroundings);
        new Preferences(app).setName("Nexus 7");
        Device.battery(app, 81, true);
        Device.network(app, NetworkCapabilities.TRANSPORT_WIFI);
        NodeMonitor.get().show(Snapshot.STOPPED);
    }

    @After
    public void reset() {
        Surroundings.replaceForTest(null);
        NodeMonitor.get().show(Snapshot.STOPPED);
    }

    private void exempt() {
        shadowOf(app.getSystemService(PowerManager.class)).setIgnoringBatteryOptimizations(app.getPackageName(), true);
        shadowOf(app).grantPermissions("android.permission.POST_NOTIFICATIONS");
    }

    private static Snapshot serving() {
        float[] history = new float[60];
        for (int i = 0; i < 60; i++) {
            history[i] = (float) (1100 + 260 * Math.sin(i / 5.0) + 120 * Math.sin(i * 1.7));
        }
        return new Snapshot(1, Supervisor.Phase.SERVING, null, "", 0, 0, new NodeStatus(8000, 16L << 30, 2, 9, 9, 9, ""),
                new Rates(1240, 5_080_000, 61_000), history, Arrays.asList(
                        "09:14:02  extent.bin: created, 16 GiB",
                        "09:14:02  extent.bin.flashmob: assigned extent identity 8c3d66c5ff70dea57d00675f6ba5dc70",
                        "09:14:02  ready, listening on 0.0.0.0:7411",
                        "09:14:09  192.168.1.5:40332: the gateway of volume pool is here, 4 links"));
    }

    private static Snapshot failed() {
        List<String> log = new ArrayList<>();
        for (int i = 0; i < 5; i++) {
            log.add("09:14:1" + 2 * (i / 2) + "  ERROR: cannot listen on 0.0.0.0:7411: Address already in use (os error 98)");
        }
        return new Snapshot(1, Supervisor.Phase.FAILED, null, "Another program uses the node\u2019s port.", 5, 0, null, Rates.NONE, new float[0], log);
    }

    private void draw(String name, String qualifiers, boolean wholePage, Snapshot snapshot) throws Exception {
        RuntimeEnvironment.setQualifiers(qualifiers);
        MainActivity activity = Robolectric.buildActivity(MainActivity.class).setup().get();
        NodeMonitor.get().show(snapshot);
        Thread.sleep(200);
        shadowOf(Looper.getMainLooper()).idle();
        // Shown as at home; this machine's own address is nobody's business.
        activity.<android.widget.TextView>findViewById(R.id.own_address).setText(activity.getString(R.string.own, "192.168.1.11:7411"));
        shadowOf(Looper.getMainLooper()).idle();
        View view = activity.findViewById(android.R.id.content);
        int height = view.getHeight();
        if (wholePage) {
            View page = ((android.view.ViewGroup) ((android.view.ViewGroup) view).getChildAt(0)).getChildAt(0);
            int width = View.MeasureSpec.makeMeasureSpec(view.getWidth(), View.MeasureSpec.EXACTLY);
            page.measure(width, View.MeasureSpec.makeMeasureSpec(0, View.MeasureSpec.UNSPECIFIED));
            height = page.getMeasuredHeight();
            view.measure(width, View.MeasureSpec.makeMeasureSpec(height, View.MeasureSpec.EXACTLY));
            view.layout(0, 0, view.getWidth(), height);
        }
        Bitmap bitmap = Bitmap.createBitmap(view.getWidth(), height, Bitmap.Config.ARGB_8888);
        Canvas canvas = new Canvas(bitmap);
        activity.getWindow().getDecorView().getBackground().draw(canvas);
        canvas.drawColor(activity.getResources().getColor(R.color.ground));
        view.draw(canvas);
        File folder = new File(System.getProperty("flashmob.screenshots"));
        Files.createDirectories(folder.toPath());
        try (FileOutputStream out = new FileOutputStream(new File(folder, name + ".png"))) {
            assertTrue(bitmap.compress(Bitmap.CompressFormat.PNG, 100, out));
        }
        // The ground and the card differ, or nothing was drawn.
        assertTrue(bitmap.getPixel(2, 2) != bitmap.getPixel(bitmap.getWidth() / 4, (int) (140 * activity.getResources().getDisplayMetrics().density)));
        activity.finish();
    }

    @Test
    public void fresh() throws Exception {
        shadowOf(app).denyPermissions("android.permission.POST_NOTIFICATIONS");
        Device.battery(app, 64, false);
        draw("fresh-page", PHONE, true, Snapshot.STOPPED);
    }

    @Test
    public void servingLight() throws Exception {
        exempt();
        new java.io.RandomAccessFile(surroundings.data(), "rw").setLength(16L << 30);
        draw("serving-page", PHONE, true, serving());
        draw("serving", PHONE, false, serving());
    }

    @Test
    public void servingDark() throws Exception {
        exempt();
        new java.io.RandomAccessFile(surroundings.data(), "rw").setLength(16L << 30);
        draw("dark", PHONE.replace("-port", "-port-night"), false, serving());
    }

    @Test
    public void gaveUp() throws Exception {
        draw("failed", PHONE, false, failed());
    }

    @Test
    public void paused() throws Exception {
        draw("paused", PHONE, false, new Snapshot(1, Supervisor.Phase.PAUSED, Supervisor.Hold.LOW_BATTERY, "", 0, 0, null, Rates.NONE,
                new float[0], new ArrayList<>()));
    }

    @Test
    public void waiting() throws Exception {
        draw("waiting", "w360dp-h640dp-port-xhdpi", false, new Snapshot(1, Supervisor.Phase.WAITING, null,
                "The node ended by itself (status 3).", 2, 1_400, null, Rates.NONE, new float[0], new ArrayList<>()));
    }

    @Test
    public void tablet() throws Exception {
        exempt();
        new java.io.RandomAccessFile(surroundings.data(), "rw").setLength(16L << 30);
        new Preferences(app).setJoin("192.168.1.5:7410");
        draw("tablet", TABLET, true, serving());
    }

    @Test
    public void tabletUpright() throws Exception {
        exempt();
        draw("tablet-port", "w600dp-h960dp-port-xhdpi", false, serving());
    }

    @Test
    public void phoneLying() throws Exception {
        draw("phone-land", "w891dp-h411dp-land-xhdpi", true, Snapshot.STOPPED);
    }

    @Test
    public void rightToLeft() throws Exception {
        new Preferences(app).setJoin("192.168.1.5:7410");
        draw("rtl", "ar-ldrtl-" + PHONE, true, serving());
    }
}
