// Have a server convert some JSON. It may still be starting: ask for its health until it answers, for 45 seconds.
const [address, json] = process.argv.slice(2);
const deadline = Date.now() + 45_000;
for (;;) {
  try {
    await fetch(`${address}/health`);
    break;
  } catch (error) {
    if (Date.now() > deadline) throw error;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
const response = await fetch(address, { method: "POST", body: json });
console.log(await response.text());
