-- One index less to write for each message: old ones are found along messages_app, application by application.
DROP INDEX hookfuse.messages_age;
