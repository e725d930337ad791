-- Palisade's marks in SQLite, for programs of any language. Needs SQLite 3.37 or newer.
--
-- In one transaction, begun with BEGIN IMMEDIATE:
--
--     INSERT INTO palisade_admit (cluster, lock, slot, token) VALUES (?, ?, 0, ?);
--     ... your own statements ...
--     COMMIT;
--
-- A stale token fails the INSERT with 'palisade: stale token': roll back, stop work, acquire again. The same INSERT with a
-- COMMIT after it is a claim: make it, commit, and only then read.
--
-- Create the tables once, for a database that has no marks yet. Tables that vanish from a database in use are lost marks:
-- do not create them anew, set them from the tokens of the present holders.

CREATE TABLE palisade_marks (
    cluster TEXT NOT NULL,
    lock TEXT NOT NULL,
    slot INTEGER NOT NULL CHECK (slot >= 0),
    mark INTEGER NOT NULL CHECK (mark BETWEEN 1 AND 9007199254740991),
    PRIMARY KEY (cluster, lock, slot)
) STRICT, WITHOUT ROWID;

CREATE VIEW palisade_admit AS SELECT cluster, lock, slot, mark AS token FROM palisade_marks;

CREATE TRIGGER palisade_admission INSTEAD OF INSERT ON palisade_admit
BEGIN
    SELECT RAISE(ABORT, 'palisade: stale token') FROM palisade_marks
        WHERE cluster = NEW.cluster AND lock = NEW.lock AND slot = NEW.slot AND mark > NEW.token;
    INSERT INTO palisade_marks (cluster, lock, slot, mark) VALUES (NEW.cluster, NEW.lock, NEW.slot, NEW.token)
        ON CONFLICT (cluster, lock, slot) DO UPDATE SET mark = excluded.mark;
END;
