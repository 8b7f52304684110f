CREATE TABLE item (name TEXT PRIMARY KEY, shelf TEXT NOT NULL, count INTEGER NOT NULL CHECK (count >= 0));
CREATE VIEW shelf AS SELECT shelf AS name, SUM(count) AS count FROM item GROUP BY shelf;
