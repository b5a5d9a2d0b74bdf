// Loaded before Azurite: answers have a length, and are not sent in chunks. pyarrow's client of Azure waits for more bytes
// after chunked answers of some lengths, until the server closes the connection.
const { ServerResponse } = require("http");

const { write, end } = ServerResponse.prototype;

ServerResponse.prototype.write = function (chunk, encoding, done) {
  if (this.headersSent || this.hasHeader("content-length")) {
    return write.call(this, chunk, encoding, done);
  }
  (this.held ??= []).push(Buffer.from(chunk, typeof encoding === "string" ? encoding : "utf8"));
  const told = typeof encoding === "function" ? encoding : done;
  if (told) process.nextTick(told);
  return true;
};

ServerResponse.prototype.end = function (chunk, encoding, done) {
  if (this.held && !this.headersSent) {
    if (chunk && typeof chunk !== "function") this.write(chunk, encoding);
    const body = Buffer.concat(this.held);
    this.held = undefined;
    this.removeHeader("transfer-encoding");
    this.setHeader("content-length", body.length);
    return end.call(this, body);
  }
  return end.call(this, chunk, encoding, done);
};
