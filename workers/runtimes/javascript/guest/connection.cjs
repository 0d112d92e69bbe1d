'use strict';
const { Socket } = require('node:net');

const HEADER_BYTES = 4;

/** Frames (length, big endian, and JSON text) on a file descriptor. The process ends with the connection. */
function connect(fd, onMessage) {
  const socket = new Socket({ fd, readable: true, writable: true });
  let chunks = [];
  let bytes = 0;
  let wanted = HEADER_BYTES;

  socket.on('data', (chunk) => {
    chunks.push(chunk);
    bytes += chunk.length;
    while (bytes >= wanted) {
      const all = Buffer.concat(chunks, bytes);
      chunks = [all];
      wanted = HEADER_BYTES + all.readUInt32BE(0);
      if (bytes < wanted) return;
      chunks = [all.subarray(wanted)];
      bytes -= wanted;
      const body = all.toString('utf8', HEADER_BYTES, wanted);
      wanted = HEADER_BYTES;
      onMessage(JSON.parse(body));
    }
  });
  socket.on('close', () => process.exit(0));
  socket.on('error', () => process.exit(0));

  const send = (message) => {
    const body = Buffer.from(JSON.stringify(message));
    const header = Buffer.allocUnsafe(HEADER_BYTES);
    header.writeUInt32BE(body.length);
    socket.cork();
    socket.write(header);
    socket.write(body);
    socket.uncork();
  };
  return { send };
}

module.exports = { connect };
