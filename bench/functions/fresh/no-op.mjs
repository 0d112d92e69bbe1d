// The no-op in a process of its own, without a sandbox.
const handler = () => null;

process.stdout.write(JSON.stringify(handler(JSON.parse(process.argv[2]))));
