//! kthread
