-- What accounts are owed, and the transfers that are to be made, each under the key that the bank gets.
CREATE TABLE owed (account bigint PRIMARY KEY, amount bigint NOT NULL);
CREATE TABLE outbox (
    key text PRIMARY KEY,
    account bigint NOT NULL,
    amount bigint NOT NULL,
    sent boolean NOT NULL DEFAULT false
);
INSERT INTO owed VALUES (7, 100), (8, 50);
