package org.flashmob.app;

import android.util.Base64;
import java.util.Locale;
import org.flashmob.app.JoinAddress.BadAddress;
import org.flashmob.app.JoinAddress.Problem;

/**
 * A link that was opened or typed: an address to be told of this device, or, with {@code #KEY.SECRET}, an invitation to a cluster with keys, as
 * {@code flashmob join --qr} shows it. The node checks it again.
 */
final class JoinLink {
    private static final int KEY_CHARS = 43;
    private static final int SECRET_CHARS = 22;
    private static final int FINGERPRINT_BYTES = 8;

    final JoinAddress address;
    /** The whole link, for the node; null for an address alone. */
    final String invitation;
    /** The first digits of the cluster's key, as {@code flashmob join} shows it; empty for an address alone. */
    final String fingerprint;

    private JoinLink(JoinAddress address, String invitation, String fingerprint) {
        this.address = address;
        this.invitation = invitation;
        this.fingerprint = fingerprint;
    }

    static JoinLink parse(String written) throws BadAddress {
        String text = written == null ? "" : written.trim();
        if (text.length() > JoinAddress.TEXT_CHARS_MAX) {
            throw new BadAddress(Problem.TOO_LONG);
        }
        int hash = text.indexOf('#');
        if (hash < 0) {
            return new JoinLink(JoinAddress.parse(text), null, "");
        }
        JoinAddress address = JoinAddress.parse(text.substring(0, hash));
        String fragment = text.substring(hash + 1);
        boolean formed = text.toLowerCase(Locale.ROOT).startsWith(JoinAddress.LINK_PREFIX)
                && fragment.matches("[A-Za-z0-9_-]{" + KEY_CHARS + "}\\.[A-Za-z0-9_-]{" + SECRET_CHARS + "}");
        if (!formed) {
            throw new BadAddress(Problem.BAD_CODE);
        }
        // As the node reads it: a prefix in small letters, and an address that was checked.
        String invitation = JoinAddress.LINK_PREFIX + address + "#" + fragment;
        return new JoinLink(address, invitation, fingerprint(fragment.substring(0, KEY_CHARS)));
    }

    /** The same invitation at another host, such as the address that a name stands for. */
    String invitationAt(String host) {
        return JoinAddress.LINK_PREFIX + address.at(host) + invitation.substring(invitation.indexOf('#'));
    }

    private static String fingerprint(String key) throws BadAddress {
        byte[] bytes;
        try {
            bytes = Base64.decode(key, Base64.URL_SAFE | Base64.NO_PADDING | Base64.NO_WRAP);
        } catch (IllegalArgumentException e) {
            throw new BadAddress(Problem.BAD_CODE);
        }
        StringBuilder digits = new StringBuilder();
        for (int i = 0; i < FINGERPRINT_BYTES; i++) {
            digits.append(String.format(Locale.ROOT, "%02x", bytes[i] & 0xff));
        }
        return digits.toString();
    }
}
