// Package wecom is the pipeline for customer-service messages of WeCom (微信客服): messages of customers are stored in
// order and passed to a handler, user by user; the handler's answers are sent once.
//
// WeCom only notifies that there are messages ([callback]); they are pulled. The stages are:
//
//   - NAME.pull: a message is an account to be pulled. Its lane is the account, so one process pulls it at a time.
//   - the topic of the messages, in the daemon's store or another one: a message is what a customer wrote, or an
//     event. Its lane is the user.
//   - NAME.replies: a message is a call that answers a user. Its lane is the user.
//
// Cursors, the access token and the ledger of replies are marks in the daemon's store.
package wecom
