// Have a server convert some JSON.
const [address, body] = process.argv.slice(2);
const response = await fetch(address, { method: "POST", body });
console.log(await response.text());
