// Convert a list of objects to CSV; the first object names the columns.

const quoted = (value) => {
  const text = String(value ?? "");
  return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};

export function convert(rows) {
  if (!Array.isArray(rows) || rows.length === 0) {
    throw new TypeError("expected a list of objects that is not empty");
  }
  const columns = Object.keys(rows[0]);
  const lines = rows.map((row) => columns.map((column) => quoted(row[column])).join(","));
  return [columns.map(quoted).join(","), ...lines].join("\n");
}
