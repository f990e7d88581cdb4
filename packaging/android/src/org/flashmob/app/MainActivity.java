package org.flashmob.app;

import android.Manifest;
import android.app.Activity;
import android.content.Intent;
import android.os.Build;
import android.os.Bundle;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** The one screen: cards for the state, this device, the gateway, advice and the log, each with a class of its own. */
public final class MainActivity extends Activity implements NodeMonitor.Listener {
    private static final int ASK_NOTIFICATIONS = 1;

    private final ExecutorService slow = Executors.newSingleThreadExecutor();
    private StatePane statePane;
    private DevicePane devicePane;
    private GatewayPane gatewayPane;
    private AdvicePane advicePane;
    private LogPane logPane;
    private DeviceWatcher watcher;
    private Supervisor.Phase phaseShown;

    @Override
    protected void onCreate(Bundle saved) {
        super.onCreate(saved);
        setContentView(R.layout.activity_main);
        statePane = new StatePane(this, this::toggle);
        devicePane = new DevicePane(this, () -> tell(NodeService.ACTION_RESTART));
        gatewayPane = new GatewayPane(this, () -> tell(NodeService.ACTION_RESTART), this::enroll);
        advicePane = new AdvicePane(this, () -> tell(NodeService.ACTION_LOOK));
        logPane = new LogPane(this);
        watcher = new DeviceWatcher(this, this::onDevice);
        // Recreated for a rotation, the link was asked about already.
        if (saved == null) {
            follow(getIntent());
        }
    }

    @Override
    protected void onNewIntent(Intent intent) {
        super.onNewIntent(intent);
        setIntent(intent);
        follow(intent);
    }

    @Override
    protected void onStart() {
        super.onStart();
        phaseShown = null;
        NodeMonitor.get().setWatched(true);
        NodeMonitor.get().add(this);
        watcher.start();
        tell(NodeService.ACTION_LOOK);
    }

    @Override
    protected void onStop() {
        devicePane.keepName();
        watcher.stop();
        NodeMonitor.get().remove(this);
        NodeMonitor.get().setWatched(false);
        super.onStop();
    }

    @Override
    protected void onDestroy() {
        slow.shutdownNow();
        super.onDestroy();
    }

    @Override
    public void onSnapshot(Snapshot snapshot) {
        if (snapshot.phase != phaseShown) {
            phaseShown = snapshot.phase;
            devicePane.refresh(snapshot.isOver());
        }
        statePane.show(snapshot, devicePane.canStart());
        logPane.show(snapshot.log);
    }

    @Override
    public void onRequestPermissionsResult(int request, String[] permissions, int[] results) {
        // Allowed or not, the node serves; only the row of advice changes.
        advicePane.show(DeviceWatcher.read(this));
    }

    private void onDevice(DeviceState state) {
        advicePane.show(state);
        slow.execute(() -> {
            String address = OwnAddress.find();
            runOnUiThread(() -> gatewayPane.showOwn(address.isEmpty() ? "" : address + ":" + Surroundings.of(this).listenPort()));
        });
    }

    private void toggle() {
        if (NodeMonitor.get().latest().isOver()) {
            devicePane.keepName();
            askForNotifications();
            NodeService.start(this);
        } else {
            tell(NodeService.ACTION_STOP);
        }
    }

    /** Starts the node with the link that was accepted, again if it runs. */
    private void enroll() {
        if (!NodeMonitor.get().latest().isOver()) {
            tell(NodeService.ACTION_RESTART);
        } else if (devicePane.canStart()) {
            toggle();
        }
    }

    /** Tells the service, if there is one that does something. */
    private void tell(String action) {
        if (!NodeMonitor.get().latest().isOver()) {
            NodeService.tell(this, action);
        }
    }

    private void askForNotifications() {
        if (Build.VERSION.SDK_INT >= Build.VERSION_CODES.TIRAMISU && !AdvicePane.mayNotify(this)) {
            requestPermissions(new String[] {Manifest.permission.POST_NOTIFICATIONS}, ASK_NOTIFICATIONS);
        }
    }

    private void follow(Intent intent) {
        // Not again out of the list of recent apps, which keeps it.
        boolean isOld = (intent.getFlags() & Intent.FLAG_ACTIVITY_LAUNCHED_FROM_HISTORY) != 0;
        if (Intent.ACTION_VIEW.equals(intent.getAction()) && intent.getData() != null && !isOld) {
            setIntent(new Intent(Intent.ACTION_MAIN));
            gatewayPane.offer(intent.getDataString());
        }
    }
}
