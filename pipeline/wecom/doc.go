// Package wecom is the pipeline for customer-service messages of WeCom (微信客服): what customers write is stored in
// order, handed to a handler user by user, and what the handler answers is sent once.
//
// WeCom only says that there is something ([callback]); the messages are pulled. The stages are:
//
//   - NAME.pull: a message is an account to be pulled. Its lane is the account, so one process pulls it at a time.
//   - the topic of the messages, in the daemon's store or another one: a message is what a customer wrote, or an
//     event. Its lane is the user.
//   - NAME.replies: a message is a call that answers a user. Its lane is the user.
//
// Cursors, the access token and the ledger of replies are marks in the daemon's store.
package wecom
