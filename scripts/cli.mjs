// The entry of every npm script. It runs on whatever Node the person has, so that it may say what is missing, and
// therefore in the syntax of Node 12: no `?.`, no `??`, no `node:` imports, no top-level await.
import { spawn } from 'child_process';
import fs from 'fs';
import path from 'path';
import { fileURLToPath, pathToFileURL } from 'url';

const leastNode = 20;
const ownNodeMajor = 26;
const self = fileURLToPath(import.meta.url);
const root = path.resolve(path.dirname(self), '..');
const modules = path.join(root, 'node_modules');
const commands = ['start', 'stop', 'test', 'test-servers', 'check', 'bench', 'run'];
const needsDevelopmentPackages = ['test', 'check', 'bench'];

const fail = (sentence) => {
  console.error('plinth: ' + sentence);
  process.exit(1);
};
const print = (sentence) => console.error('plinth: ' + sentence);
const readJson = (file) => {
  try {
    return JSON.parse(fs.readFileSync(file, 'utf8'));
  } catch {
    return null;
  }
};
const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const versionParts = (version) => version.replace(/^v/, '').split('.').map(Number);
const isAtLeast = (version, other) => {
  const [a, b] = [versionParts(version), versionParts(other)];
  const at = a.findIndex((part, index) => part !== b[index]);
  return at === -1 || a[at] > b[at];
};

// ---- the project's own Node --------------------------------------------------------------------------------------

const ownNode = () => {
  const names = ['node-' + process.platform + '-' + process.arch, 'node-bin-' + process.platform + '-' + process.arch];
  for (const name of names) {
    const manifest = readJson(path.join(modules, name, 'package.json'));
    const program = path.join(modules, name, 'bin', 'node');
    if (manifest && fs.existsSync(program)) return { program: program, version: manifest.version };
  }
  return null;
};

/** The Node to go on with: `null` is the running one. */
const nodeToUse = () => {
  const own = ownNode();
  const runningIsEnough = versionParts(process.version)[0] >= ownNodeMajor;
  if (runningIsEnough && (own === null || isAtLeast(process.version, own.version))) return null;
  if (own !== null) return own.program;
  return fail(
    'there is no packaged Node for ' +
      process.platform +
      '-' +
      process.arch +
      ': install Node ' +
      ownNodeMajor +
      ' or newer from https://nodejs.org and run this again.',
  );
};

// ---- packages ----------------------------------------------------------------------------------------------------

// npm moves a folder aside under such a name while it replaces it: one that is left means an install was cut off.
const isRetired = (name) => /^\..+-[A-Za-z0-9]{8}$/.test(name);
const foldersIn = (folder) => (fs.existsSync(folder) ? fs.readdirSync(folder) : []);
const wasCutOff = () => {
  const names = foldersIn(modules);
  const scopes = names.filter((name) => name.startsWith('@')).map((name) => path.join(modules, name));
  return names.some(isRetired) || scopes.some((scope) => foldersIn(scope).some(isRetired));
};

/** Whether node_modules is a whole install of package-lock.json. npm writes its own list there as its last act. */
const packagesFit = (withDevelopment) => {
  const wanted = readJson(path.join(root, 'package-lock.json'));
  const installed = readJson(path.join(modules, '.package-lock.json'));
  if (!wanted || !installed || wasCutOff()) return false;
  return Object.keys(wanted.packages).every((place) => {
    const want = wanted.packages[place];
    const have = installed.packages[place];
    if (place === '' || want.link) return true;
    if (!have) return want.optional || want.peer || want.devOptional || (want.dev && !withDevelopment) || false;
    return have.version === want.version && fs.existsSync(path.join(root, place, 'package.json'));
  });
};

const isAlive = (pid) => {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return error.code === 'EPERM';
  }
};

const claim = (file) => {
  try {
    fs.writeFileSync(file, String(process.pid), { flag: 'wx' });
    return true;
  } catch (error) {
    if (error.code !== 'EEXIST') throw error;
    return false;
  }
};

const holderOf = (file) => (fs.existsSync(file) ? Number(fs.readFileSync(file, 'utf8')) : 0);

const releaseClaim = (file) => {
  if (holderOf(file) === process.pid) fs.unlinkSync(file);
};

/** Two commands started at once must not both run npm: the second waits for the first. */
const claimInstall = async (file) => {
  const maxInstallMs = 15 * 60 * 1000;
  for (let reported = false; !claim(file); reported = true) {
    const holder = holderOf(file);
    const age = fs.existsSync(file) ? Date.now() - fs.statSync(file).mtimeMs : 0;
    if (holder > 0 && (!isAlive(holder) || age > maxInstallMs)) fs.unlinkSync(file);
    else if (!reported) print('waiting for another command that installs packages (pid ' + holder + ')');
    await wait(200);
  }
};

const withoutOwnBin = (list) => {
  const entries = list.split(path.delimiter);
  return entries.filter((entry) => !entry.endsWith(path.join('node_modules', '.bin'))).join(path.delimiter);
};

/** Runs `npm ci`. Install scripts stay off: what needs them is set up by scripts/, the same way with every npm. */
const runNpm = (withDevelopment) =>
  new Promise((resolve) => {
    const args = ['ci', '--ignore-scripts', '--include=optional', '--no-audit', '--no-fund', '--loglevel=error'];
    if (withDevelopment) args.push('--include=dev');
    // npm must not run on the Node that it is about to replace.
    const env = Object.assign({}, process.env, { PATH: withoutOwnBin(process.env.PATH || '') });
    const npm = spawn('npm', args, { cwd: root, env: env, stdio: ['ignore', 'inherit', 'inherit'] });
    npm.on('error', () => fail('npm is not on the PATH: install Node with npm from https://nodejs.org.'));
    let interrupted = false;
    npm.on('exit', (code) => resolve(interrupted ? 130 : code));
    // npm may take its time to end: nothing it does now is worth waiting for, the next start begins afresh.
    const interrupt = () => {
      interrupted = true;
      npm.kill('SIGTERM');
      setTimeout(() => npm.kill('SIGKILL'), 2000).unref();
    };
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, interrupt);
  });

const complainThatRootIsReadOnly = (error) =>
  fail(
    'packages have to be installed, but ' +
      root +
      ' cannot be written (' +
      error.code +
      '): run `npm ci` there as a user who may, then start again.',
  );

const install = async (withDevelopment) => {
  const lock = path.join(root, '.data', 'install.pid');
  try {
    fs.accessSync(root, fs.constants.W_OK);
    fs.mkdirSync(path.dirname(lock), { recursive: true });
    await claimInstall(lock);
  } catch (error) {
    complainThatRootIsReadOnly(error);
  }
  process.on('exit', () => releaseClaim(lock));
  if (packagesFit(withDevelopment)) return releaseClaim(lock);
  const began = Date.now();
  const seconds = () => Math.round((Date.now() - began) / 1000);
  print('installing packages (npm ci), once; this takes 10 to 60 seconds');
  const ticker = setInterval(() => print('still installing packages (' + seconds() + ' s)'), 10000);
  const code = await runNpm(withDevelopment);
  clearInterval(ticker);
  if (code === 130) {
    print('interrupted; the next start installs the packages anew');
    process.exit(code);
  }
  if (code !== 0) {
    print('the packages could not be installed (npm ci ended with ' + code + '; its message is above).');
    process.exit(code || 1);
  }
  print('packages installed in ' + seconds() + ' s');
  return releaseClaim(lock);
};

// ---- going on ----------------------------------------------------------------------------------------------------

const forward = (child) => {
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
    process.removeAllListeners(signal);
    process.on(signal, () => child.kill(signal));
  }
};

const signalNumbers = { SIGHUP: 1, SIGINT: 2, SIGKILL: 9, SIGTERM: 15 };

const runAgainOn = (node) => {
  // The channel carries nothing: its end tells the other side that this process is gone.
  const child = spawn(node, [self].concat(process.argv.slice(2)), { stdio: ['inherit', 'inherit', 'inherit', 'ipc'] });
  forward(child);
  child.on('error', (error) =>
    fail('the packaged Node does not run here (' + error.code + '): install Node ' + ownNodeMajor + ' or newer.'),
  );
  child.on('exit', (code, signal) => process.exit(signal ? 128 + (signalNumbers[signal] || 0) : code));
};

const hangUp = () => process.kill(process.pid, 'SIGHUP');

const parentOf = (pid) => {
  try {
    const stat = fs.readFileSync('/proc/' + pid + '/stat', 'utf8');
    return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
  } catch {
    return 0;
  }
};

/** The processes above us that npm put there: npm itself, and a shell between it and us. */
const starters = () => [process.ppid, parentOf(process.ppid)].join();

/** Whoever started us may be killed without a word: then this is a closed terminal to us. */
const followParent = () => {
  if (process.channel) {
    process.once('disconnect', hangUp);
    process.channel.unref();
  } else if (process.env.npm_lifecycle_event) {
    const before = starters();
    const watch = setInterval(() => {
      if (starters() === before) return;
      clearInterval(watch);
      hangUp();
    }, 500);
    watch.unref();
  }
};

const begin = async () => {
  const command = process.argv[2];
  if (versionParts(process.version)[0] < leastNode) {
    fail('Node ' + process.version + ' is too old: install Node ' + leastNode + ' or newer from https://nodejs.org.');
  }
  if (process.platform === 'win32') fail('plinth runs on Linux and macOS: on Windows use WSL.');
  if (commands.indexOf(command) === -1) fail('usage: node scripts/cli.mjs ' + commands.join('|') + ' [arguments]');
  const withDevelopment = needsDevelopmentPackages.indexOf(command) !== -1;
  const stopsOnly = command === 'stop' && ownNode() !== null;
  if (!stopsOnly && !packagesFit(withDevelopment)) await install(withDevelopment);
  const other = nodeToUse();
  followParent();
  if (other !== null) return runAgainOn(other);
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.removeAllListeners(signal);
  const main = await import(pathToFileURL(path.join(root, 'scripts', 'main.ts')).href);
  return main.main(command, process.argv.slice(3), root);
};

begin().catch((error) => {
  console.error(error);
  process.exit(1);
});
