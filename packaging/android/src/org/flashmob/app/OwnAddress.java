package org.flashmob.app;

import java.net.Inet4Address;
import java.net.InetAddress;
import java.net.NetworkInterface;
import java.net.SocketException;
import java.util.Collections;

/** The address at which gateways on the local network reach this device. Asks the kernel; not for the main thread. */
final class OwnAddress {
    private OwnAddress() {}

    /** IPv4, for the node listens on 0.0.0.0; empty if there is none. */
    static String find() {
        String found = "";
        try {
            for (NetworkInterface each : Collections.list(NetworkInterface.getNetworkInterfaces())) {
                boolean local = each.getName().startsWith("wlan") || each.getName().startsWith("eth");
                for (InetAddress address : Collections.list(each.getInetAddresses())) {
                    if (each.isUp() && address instanceof Inet4Address && address.isSiteLocalAddress() && (found.isEmpty() || local)) {
                        found = address.getHostAddress();
                    }
                }
            }
        } catch (SocketException | NullPointerException e) {
            // Android forbids it to some apps, and some versions answer null: then it is not shown.
            return found;
        }
        return found;
    }
}
