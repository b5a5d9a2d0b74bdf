package com.sun.security.auth.module;

/**
 * The user of a process that has no entry in the system's user database: named by the property user.name.
 *
 * Java's own class of this name asks the database, and Hadoop's login fails if there is no entry. Trailgate puts this one in its place
 * (--patch-module) for such users alone.
 */
public class UnixSystem {
    protected String username = System.getProperty("user.name");
    protected long uid = Long.getLong("trailgate.uid", 0L);
    protected long gid = Long.getLong("trailgate.gid", 0L);
    protected long[] groups = {};

    public String getUsername() {
        return username;
    }

    public long getUid() {
        return uid;
    }

    public long getGid() {
        return gid;
    }

    public long[] getGroups() {
        return groups;
    }
}
