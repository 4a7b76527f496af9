// ioredis against the service, in both versions of the protocol. Arguments: a port without tokens and a port that requires tokens.
const { Redis } = require("ioredis");

const [openPort, guardedPort] = process.argv.slice(2).map(Number);

function check(condition, what) {
  if (!condition) throw new Error(`ioredis: ${JSON.stringify(what)}`);
}

async function refused(promise, expected) {
  try {
    await promise;
  } catch (error) {
    check(String(error.message).includes(expected), error.message);
    return;
  }
  throw new Error(`ioredis: ${expected} was expected`);
}

async function talk(protocol) {
  const key = `js${protocol}`;
  const client = new Redis({ port: openPort, protocol, connectionName: "worker", retryStrategy: null });
  check((await client.ping()) === "PONG", "ping");
  check((await client.client("GETNAME")) === "worker", "name");
  check((await client.info()).includes("tidegate_version"), "info");

  const allowed = await client.call("TG.CHECK", "api", key);
  check(allowed.slice(0, 4).join() === "1,3,2,-1" && allowed[5] > 0, allowed);
  const full = await client.call("TG.CHECK", "api", key, "COST", 2, "FULL");
  check(full[0] === "allowed" && full[1] === 1 && full[13] === null, full);
  check((await client.call("TG.CHECK", "api", key))[0] === 0, "denied");
  check((await client.call("CL.THROTTLE", key, 15, 30, 60)).join() === "0,16,15,-1,2", "throttle");
  check((await client.call("TG.RESET", "api", key)) === 1, "reset");
  await refused(client.call("TG.CHECK", "apo", key), "did you mean `api`?");

  const pipeline = client.pipeline();
  for (let number = 0; number < 2000; number += 1) {
    pipeline.call("TG.CHECK", "wide", key);
    pipeline.echo(String(number));
  }
  const replies = await pipeline.exec();
  for (let number = 0; number < 2000; number += 1) {
    check(replies[2 * number][1][2] === 999_999 - number, replies[2 * number]);
    check(replies[2 * number + 1][1] === String(number), replies[2 * number + 1]);
  }
  const transaction = client.multi();
  for (let number = 0; number < 2000; number += 1) transaction.call("TG.CHECK", "wide", key);
  const ran = await transaction.exec();
  check(ran.length === 2000 && ran[1999][1][2] === 996_000, ran[1999]);
  await client.multi({ pipeline: false });
  check((await client.call("TG.CHECK", "wide", key)) === "QUEUED", "queued");
  check((await client.discard()) === "OK", "discard");
  await refused(client.multi().call("TG.CHECK", "wide", key).call("TG.CHECK", "wide").exec(), "EXECABORT");
  check((await client.call("TG.PEEK", "wide", key))[2] === 996_000, "an aborted transaction is not charged");
  await client.quit();

  const options = { port: guardedPort, protocol, retryStrategy: null, maxRetriesPerRequest: 0 };
  const stranger = new Redis({ ...options, enableReadyCheck: false });
  stranger.on("error", () => {});
  await refused(stranger.call("TG.CHECK", "api", key), "NOAUTH");
  stranger.disconnect();
  const user = new Redis({ ...options, username: "anyone", password: "usage-token" });
  check((await user.call("TG.CHECK", "api", key))[0] === 1, "a token");
  await refused(user.call("TG.RESET", "api", key), "NOPERM");
  await user.quit();
  const admin = new Redis({ ...options, password: "admin-token" });
  check((await admin.call("TG.RESET", "api", key)) === 1, "the admin's token");
  await admin.quit();
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
