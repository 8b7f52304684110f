#!/usr/bin/env node
import { readFileSync } from "node:fs";
import { convert } from "./convert.js";

console.log(convert(JSON.parse(readFileSync(0, "utf8"))));
