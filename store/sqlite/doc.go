// Package sqlite keeps messages in one file, without a server: the store for one
// machine, and the default. It uses a Go translation of SQLite; no C compiler is
// needed.
//
// # Durability
//
// The file is in write-ahead mode. With [Full], the default, every call that
// changes something is synchronised to disk when it returns, and survives the
// loss of power as far as the disk keeps what it has synchronised. One goroutine
// writes; it does all calls that are waiting in one transaction with one
// synchronisation, so that many callers cost little more than one.
//
// # Several processes
//
// Several stores in any number of processes of one machine may have the file open.
// SQLite's lock decides who writes; a lock on the file PATH-turn keeps them in a queue,
// so that none is starved. Listeners check a counter in shared memory every few
// milliseconds.
//
// The file must be on a local disk. A write-ahead log needs memory that is shared
// by all processes, and locks that work: NFS and SMB have neither, and two
// machines on one file will damage it. For more than one machine there are the
// stores with a server.
//
// Nothing else may open PATH, PATH-wal or PATH-shm in a process that has the
// store open, not even to read: closing any handle of a file drops all POSIX
// locks that the process holds on it. That includes other libraries for SQLite, of which
// [Store.AppendTx] takes no transaction. Back up with SQLite's own means
// (`sqlite3 PATH ".backup COPY"`, VACUUM INTO), or while no process has it open. A store
// whose file or log was removed, replaced or overwritten fails every call with [ErrReplaced].
// A container mounts the folder, not the file alone: the log beside it has what was stored last. For the same reason
// [Open] refuses a file that is open by another name, a hard link.
//
// # Open transactions block all other writers
//
// A file has one writer at a time. While a transaction of the application that
// has written is open on the same file, whether it uses [Store.AppendTx] or not,
// every append, claim, extend and settle of every process waits. Leases are not
// extended meanwhile and may end. Keep such transactions to milliseconds. After
// [Config.Wait] a call that still waits fails with store.ErrUnavailable.
//
// A reader that keeps a transaction open blocks no one, but meanwhile the log cannot be
// truncated and grows.
//
// # Disk full
//
// A call that finds no room fails with store.ErrFull and changes nothing. Stored
// messages stay, and work continues as soon as there is room; settling also needs a
// little. The file does not shrink: free pages are reused.
//
// # Layout
//
// A message is written once, to pawl_msg, and deleted when it is acked. A lane that can
// be claimed has a ticket in pawl_slot, in the order of rank; a lane that is carried
// out has a row in pawl_lease; a lane that is closed until a certain time has one in
// pawl_closed. A lane of a key with messages has exactly one of the three. Messages
// without a history have no row anywhere else. All tables carry the prefix pawl_,
// because the file may be an application's own database.
package sqlite
