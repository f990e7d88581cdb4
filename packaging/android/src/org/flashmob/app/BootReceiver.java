package org.flashmob.app;

import android.content.BroadcastReceiver;
import android.content.Context;
import android.content.Intent;

/** After a reboot, and after an update of the app, the node goes on if it served before. Both broadcasts allow the start of a foreground service. */
public final class BootReceiver extends BroadcastReceiver {
    @Override
    public void onReceive(Context context, Intent intent) {
        String action = intent.getAction();
        boolean ours = Intent.ACTION_BOOT_COMPLETED.equals(action) || Intent.ACTION_MY_PACKAGE_REPLACED.equals(action);
        if (ours && new Preferences(context).isServingWanted()) {
            try {
                NodeService.start(context);
            } catch (IllegalStateException e) {
                // Android 12 and later may still refuse, as makers see fit.
                Notices.askToOpen(context);
            }
        }
    }
}
