// Ask a server for its health until it answers, for ten seconds at most.
const deadline = Date.now() + 10_000;
for (;;) {
  try {
    const response = await fetch(process.argv[2]);
    console.log(await response.text());
    break;
  } catch (error) {
    if (Date.now() > deadline) throw error;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
