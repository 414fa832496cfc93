/*
 * schema.c - the text of schema.h.
 *
 * sample, smaps and gpu are clustered on (tick, ...), so that writing appends at one end and reading a
 * stretch of time is one scan. Kinds are small integers in the tables (a long run has a million marks) and
 * words in the views; the views are for people: nothing in Tidemark reads them.
 */
#include "record/schema.h"

const char tide_schema_sql[] =
    "CREATE TABLE meta (key TEXT PRIMARY KEY NOT NULL, value) WITHOUT ROWID;"
    "CREATE TABLE process ("
    " id INTEGER PRIMARY KEY, pid INTEGER, parent INTEGER, start_ticks INTEGER, name TEXT, command TEXT,"
    " role TEXT, began_ns INTEGER, ended_ns INTEGER, peak_rss_bytes INTEGER, rank INTEGER);"
    "CREATE TABLE tick ("
    " id INTEGER PRIMARY KEY, t_ns INTEGER, processes INTEGER, rss_bytes INTEGER, counted_bytes INTEGER,"
    " pss_known_bytes INTEGER, cgroup_bytes INTEGER, cgroup_peak_bytes INTEGER, pressure_ppm INTEGER,"
    " available_bytes INTEGER);"
    "CREATE TABLE sample ("
    " tick INTEGER NOT NULL, process INTEGER NOT NULL, anon_bytes INTEGER, file_bytes INTEGER,"
    " shmem_bytes INTEGER, swap_bytes INTEGER, huge_bytes INTEGER, threads INTEGER,"
    " asked_bytes INTEGER, mapped_bytes INTEGER, PRIMARY KEY (tick, process)) WITHOUT ROWID;"
    "CREATE TABLE smaps ("
    " tick INTEGER NOT NULL, process INTEGER NOT NULL, pss_bytes INTEGER, uss_bytes INTEGER,"
    " swap_pss_bytes INTEGER, cost_ns INTEGER, PRIMARY KEY (tick, process)) WITHOUT ROWID;"
    "CREATE TABLE mark ("
    " id INTEGER PRIMARY KEY, t_ns INTEGER, process INTEGER, kind INTEGER, source INTEGER, number INTEGER,"
    " name TEXT);"
    "CREATE TABLE gpu ("
    " tick INTEGER NOT NULL, device INTEGER NOT NULL, process INTEGER NOT NULL, bytes INTEGER,"
    " PRIMARY KEY (tick, device, process)) WITHOUT ROWID;"
    "CREATE TABLE gpu_device ("
    " device INTEGER PRIMARY KEY, name TEXT, uuid TEXT, total_bytes INTEGER);"
    "CREATE TABLE memory_limit (id INTEGER PRIMARY KEY, t_ns INTEGER, name TEXT, bytes INTEGER);"
    "CREATE TABLE note (id INTEGER PRIMARY KEY, t_ns INTEGER, text TEXT);"

    "CREATE TABLE frame ("
    " id INTEGER PRIMARY KEY, function TEXT, file TEXT, line INTEGER, module TEXT, offset INTEGER,"
    " python INTEGER, inlined INTEGER, source TEXT);"
    "CREATE TABLE stack ("
    " id INTEGER NOT NULL, depth INTEGER NOT NULL, frame INTEGER, PRIMARY KEY (id, depth)) WITHOUT ROWID;"
    "CREATE TABLE site (id INTEGER PRIMARY KEY, process INTEGER, kind INTEGER, stack INTEGER);"
    "CREATE TABLE site_sample ("
    " tick INTEGER NOT NULL, site INTEGER NOT NULL, live_bytes INTEGER, live_blocks INTEGER,"
    " total_bytes INTEGER, total_blocks INTEGER, PRIMARY KEY (tick, site)) WITHOUT ROWID;"
    "CREATE TABLE heap_state ("
    " id INTEGER PRIMARY KEY, process INTEGER, t_ns INTEGER, state TEXT, interval_bytes INTEGER,"
    " sampled INTEGER, dropped_sites INTEGER, dropped_blocks INTEGER, truncated_stacks INTEGER,"
    " unwinds INTEGER, unwind_ns INTEGER);"
    "CREATE TABLE heap_sample ("
    " tick INTEGER NOT NULL, process INTEGER NOT NULL, live_bytes INTEGER, live_blocks INTEGER,"
    " system_bytes INTEGER, mapped_bytes INTEGER, free_bytes INTEGER, free_blocks INTEGER,"
    " top_bytes INTEGER, PRIMARY KEY (tick, process)) WITHOUT ROWID;"

    "CREATE VIEW samples AS SELECT"
    " t.t_ns / 1e9 AS t_s, s.tick, s.process, p.pid, p.name, p.role,"
    " s.anon_bytes + s.file_bytes + s.shmem_bytes AS rss_bytes,"
    " s.anon_bytes, s.file_bytes, s.shmem_bytes, s.swap_bytes, s.huge_bytes, s.threads, s.asked_bytes, s.mapped_bytes"
    " FROM sample AS s JOIN tick AS t ON t.id = s.tick LEFT JOIN process AS p ON p.id = s.process;"
    "CREATE VIEW marks AS SELECT"
    " m.t_ns / 1e9 AS t_s, m.process, p.pid,"
    " CASE m.kind WHEN 1 THEN 'step' WHEN 2 THEN 'epoch' WHEN 3 THEN 'phase begin' WHEN 4 THEN 'phase end'"
    " WHEN 5 THEN 'items' WHEN 6 THEN 'gauge' END AS kind,"
    " CASE m.source WHEN 1 THEN 'program' WHEN 2 THEN 'output' WHEN 3 THEN 'tracker' END AS source,"
    " m.number, m.name"
    " FROM mark AS m LEFT JOIN process AS p ON p.id = m.process;"

    "CREATE VIEW frames AS SELECT"
    " s.id AS stack, s.depth, f.id AS frame, CASE WHEN f.function <> '' THEN f.function"
    " ELSE printf('%s+0x%x', f.module, f.offset) END AS function, f.file, f.line, f.module, f.python, f.inlined"
    " FROM stack AS s LEFT JOIN frame AS f ON f.id = s.frame;"
    "CREATE VIEW sites AS SELECT"
    " t.t_ns / 1e9 AS t_s, h.tick, h.site, s.process, p.pid, p.name,"
    " CASE s.kind WHEN 1 THEN 'malloc' WHEN 2 THEN 'mmap' WHEN 3 THEN 'cuda' WHEN 4 THEN 'pool' WHEN 5 THEN 'tensor' END AS kind,"
    " s.stack, h.live_bytes, h.live_blocks, h.total_bytes, h.total_blocks"
    " FROM site_sample AS h JOIN tick AS t ON t.id = h.tick LEFT JOIN site AS s ON s.id = h.site"
    " LEFT JOIN process AS p ON p.id = s.process;"

    "PRAGMA application_id = 0x54494445;"
    "PRAGMA user_version = 5;";

const char *const tide_schema_tables[] = {"meta", "process",    "tick",         "sample", "smaps", "mark",
                                          "gpu",  "gpu_device", "memory_limit", "note",   0};

const char *const tide_schema_heap_tables[] = {"frame", "stack", "site", "site_sample", "heap_state", 0};

const char *const tide_schema_retention_tables[] = {"heap_sample", 0};
