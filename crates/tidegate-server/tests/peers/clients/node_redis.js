// node-redis against the service, in both versions of the protocol. Arguments: a port without tokens and a port that requires tokens.
const { createClient } = require("redis");

const [openPort, guardedPort] = process.argv.slice(2).map(Number);

function check(condition, what) {
  if (!condition) throw new Error(`node-redis: ${JSON.stringify(what)}`);
}

async function talk(RESP) {
  const key = `node${RESP}`;
  const client = createClient({ socket: { port: openPort, reconnectStrategy: false }, RESP });
  client.on("error", (error) => { throw error; });
  await client.connect();
  check((await client.ping()) === "PONG", "ping");
  const allowed = await client.sendCommand(["TG.CHECK", "api", key]);
  check(allowed.slice(0, 4).join() === "1,3,2,-1", allowed);

  const transaction = client.multi();
  for (let number = 0; number < 500; number += 1) transaction.addCommand(["TG.CHECK", "wide", key]);
  const ran = await transaction.exec();
  check(ran.length === 500 && ran[499][2] === 999_500, ran[499]);
  let aborted = false;
  try {
    await client.multi().addCommand(["TG.CHECK", "wide", key]).addCommand(["TG.CHECK", "wide"]).exec();
  } catch {
    aborted = true;
  }
  check(aborted, "a malformed command is an error");
  check((await client.sendCommand(["TG.PEEK", "wide", key]))[2] === 999_500, "an aborted transaction is not charged");
  await client.close();

  const user = createClient({ socket: { port: guardedPort }, RESP, username: "anyone", password: "usage-token" });
  await user.connect();
  check((await user.sendCommand(["TG.CHECK", "api", key]))[0] === 1, "a token");
  await user.close();
}

async function main() {
  await talk(2);
  await talk(3);
  console.log("ok");
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
