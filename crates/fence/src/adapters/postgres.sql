-- Palisade's marks in PostgreSQL 13 or newer, for programs of any language.
--
-- In the transaction that writes, before everything else:
--
--     SELECT palisade_admit('<cluster id>', 'orders/shard-7', 0, 41);
--     ... your own statements ...
--     COMMIT;
--
-- A stale token fails with SQLSTATE PF412, and DETAIL has both tokens as JSON: roll back, stop work, acquire again. A new
-- holder first runs SELECT palisade_claim(...) in a transaction of its own, commits it, and only then reads.
--
-- The row of the mark stays locked until the commit, so that holders follow one another. Under REPEATABLE READ and
-- SERIALIZABLE whoever waited for it gets 40001: begin again, and hear PF412.
--
-- Run this once, in a database that has no marks yet. Marks that vanish from a database in use are lost: do not create
-- them anew, set them from the tokens of the present holders.

CREATE TABLE palisade_marks (
    cluster text COLLATE "C" NOT NULL,
    lock text COLLATE "C" NOT NULL,
    slot bigint NOT NULL CHECK (slot >= 0),
    mark bigint NOT NULL CHECK (mark BETWEEN 1 AND 9007199254740991),
    -- The transaction that was last admitted to write; the triggers below ask for it.
    admitted xid8,
    PRIMARY KEY (cluster, lock, slot)
);

CREATE FUNCTION palisade_raise(
    of_cluster text, of_lock text, of_slot bigint, token bigint, floor bigint, writes boolean
) RETURNS bigint LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    known bigint;
BEGIN
    IF token IS NULL OR token NOT BETWEEN 1 AND 9007199254740991 THEN
        RAISE EXCEPTION 'palisade: % is not a token', token USING ERRCODE = 'PF400';
    END IF;
    IF current_setting('synchronous_commit') = 'off' THEN
        RAISE EXCEPTION 'palisade: synchronous_commit is off, and a crash would forget a claim'
            USING ERRCODE = 'PF500';
    END IF;
    IF floor IS NULL OR token >= floor THEN
        INSERT INTO palisade_marks AS m (cluster, lock, slot, mark, admitted)
            VALUES (of_cluster, of_lock, of_slot, token, CASE WHEN writes THEN pg_current_xact_id() END)
            ON CONFLICT (cluster, lock, slot) DO UPDATE
                SET mark = excluded.mark, admitted = coalesce(excluded.admitted, m.admitted)
                WHERE m.mark <= excluded.mark
            RETURNING m.mark INTO known;
        IF FOUND THEN
            RETURN known;
        END IF;
    END IF;
    SELECT m.mark INTO known FROM palisade_marks AS m
        WHERE m.cluster = of_cluster AND m.lock = of_lock AND m.slot = of_slot;
    known := greatest(known, floor);
    RAISE EXCEPTION 'palisade: stale token % of % (slot %), below %: stop work, and acquire again',
        token, of_lock, of_slot, known
        USING ERRCODE = 'PF412', DETAIL = json_build_object('presented', token, 'mark', known)::text;
END
$$;

-- Admits a write.
CREATE FUNCTION palisade_admit(cluster text, lock text, slot bigint, token bigint, floor bigint DEFAULT NULL)
RETURNS bigint LANGUAGE sql SET search_path FROM CURRENT AS
$$ SELECT palisade_raise(cluster, lock, slot, token, floor, true) $$;

-- Raises the mark, and admits no write.
CREATE FUNCTION palisade_claim(cluster text, lock text, slot bigint, token bigint, floor bigint DEFAULT NULL)
RETURNS bigint LANGUAGE sql SET search_path FROM CURRENT AS
$$ SELECT palisade_raise(cluster, lock, slot, token, floor, false) $$;

-- Makes forgetting impossible: the table is written only in a transaction that was admitted for the lock, or for one of
-- several.
--
--     CREATE TRIGGER fenced BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON orders
--         FOR EACH STATEMENT EXECUTE FUNCTION palisade_require('<cluster id>', 'orders/shard-7');
CREATE FUNCTION palisade_require() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM FROM palisade_marks
        WHERE cluster = TG_ARGV[0] AND lock = ANY (TG_ARGV[1:]) AND admitted = pg_current_xact_id_if_assigned();
    IF NOT FOUND THEN
        RAISE EXCEPTION 'palisade: % is written only under %, and this transaction was not admitted for it',
            TG_TABLE_NAME, array_to_string(TG_ARGV[1:], ' or ') USING ERRCODE = 'PF428', HINT = 'Call palisade_admit first.';
    END IF;
    RETURN NULL;
END
$$;

-- The same, and stamps each row with the token, in its column fencing_token bigint. It also refuses to go below a row's
-- own stamp, so that a table whose marks were lost still knows what it has seen.
--
--     CREATE TRIGGER stamped BEFORE INSERT OR UPDATE OR DELETE ON orders
--         FOR EACH ROW EXECUTE FUNCTION palisade_stamp('<cluster id>', 'orders/shard-7');
CREATE FUNCTION palisade_stamp() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    known bigint;
BEGIN
    SELECT max(mark) INTO known FROM palisade_marks
        WHERE cluster = TG_ARGV[0] AND lock = ANY (TG_ARGV[1:]) AND admitted = pg_current_xact_id_if_assigned();
    IF known IS NULL THEN
        RAISE EXCEPTION 'palisade: % is written only under %, and this transaction was not admitted for it',
            TG_TABLE_NAME, array_to_string(TG_ARGV[1:], ' or ') USING ERRCODE = 'PF428', HINT = 'Call palisade_admit first.';
    END IF;
    IF TG_OP <> 'INSERT' AND OLD.fencing_token > known THEN
        RAISE EXCEPTION 'palisade: stale token %, below % of the row: stop work, and acquire again',
            known, OLD.fencing_token
            USING ERRCODE = 'PF412',
                DETAIL = json_build_object('presented', known, 'mark', OLD.fencing_token)::text;
    END IF;
    IF TG_OP = 'DELETE' THEN
        RETURN OLD;
    END IF;
    NEW.fencing_token := known;
    RETURN NEW;
END
$$;
