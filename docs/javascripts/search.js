// The theme's search appends a wildcard to each word of a query. A word such as "a" then matches every word that begins with it, so the search would rank pages by their titles' first
// letters. Remove such words from queries; a query of nothing else stays as it is.
const IGNORED = new Set(
  "a an and any are as at be by can do does for from get has have how i if in is it me my need not of on or our so that the there they this to want was we what when where which who why will with you".split(" ")
);
const QUERY = 2; // the type of messages that carry a query to the search worker

const postMessage = Worker.prototype.postMessage;
Worker.prototype.postMessage = function (message, ...rest) {
  if (message?.type === QUERY && typeof message.data === "string") {
    const words = message.data.split(/\s+/).filter((word) => word && !IGNORED.has(word.toLowerCase()));
    if (words.length) message = { ...message, data: words.join(" ") };
  }
  return postMessage.call(this, message, ...rest);
};
