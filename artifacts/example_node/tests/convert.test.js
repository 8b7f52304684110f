import assert from "node:assert/strict";
import { test } from "node:test";
import { convert } from "../src/convert.js";

test("columns come from the first object", () => {
  assert.equal(convert([{ a: 1, b: 2 }, { b: 4, a: 3 }]), "a,b\n1,2\n3,4");
});

test("commas and quotes are quoted", () => {
  assert.equal(convert([{ a: 'x,"y"' }]), 'a\n"x,""y"""');
});

test("nothing is refused", () => {
  assert.throws(() => convert([]), TypeError);
});

test("no cell of a large table is lost", (context) => {
  const { ROWS = 10, COLUMNS = 10 } = process.env;
  const row = Array.from({ length: COLUMNS }, () => "cell");
  const lines = convert(Array(Number(ROWS)).fill(row)).split("\n").slice(1);
  const cells = lines.flatMap((line) => line.split(",")).length;
  context.diagnostic(`${cells} cells`);
  assert.equal(cells, ROWS * COLUMNS);
});
