// Ask a server for its health until it answers, for 45 seconds at most, since machines are busy at times.
const deadline = Date.now() + 45_000;
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
