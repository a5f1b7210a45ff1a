//! Arrow Flight SQL: statements in, record batches out. Off unless a listener is configured for it.

use std::sync::Arc;

use arrow::{datatypes::Schema, ipc::writer::IpcWriteOptions};
use arrow_flight::{
    FlightDescriptor, FlightEndpoint, FlightInfo, IpcMessage, SchemaAsIpc, Ticket,
    encode::FlightDataEncoderBuilder,
    error::FlightError,
    flight_service_server::{FlightService, FlightServiceServer},
    sql::{CommandStatementQuery, ProstMessageExt, SqlInfo, TicketStatementQuery, server::FlightSqlService},
};
use futures::{StreamExt, TryStreamExt};
use prost::Message;
use tonic::{Request, Response, Status, metadata::MetadataMap};

use super::{Engine, Error, Relation};

/// Who is asking, and what they may see: the one door between a credential and a tenant's tables.
pub trait Catalog: Send + Sync + 'static {
    /// The relations of the caller's tenant.
    ///
    /// # Errors
    /// `UNAUTHENTICATED` without a valid credential, `UNAVAILABLE` when the tables cannot be read now.
    // A status is what the transport answers with; boxing it would buy nothing here.
    #[allow(clippy::result_large_err)]
    fn relations(&self, credentials: &MetadataMap) -> Result<Vec<Relation>, Status>;
}

/// The Flight SQL service as routes, to be served by the project's own listener.
pub fn router<C: Catalog>(engine: Arc<Engine>, catalog: Arc<C>) -> axum::Router {
    let service = FlightServiceServer::new(Service { engine, catalog });
    axum::Router::new().route_service("/arrow.flight.protocol.FlightService/{method}", service)
}

struct Service<C> {
    engine: Arc<Engine>,
    catalog: Arc<C>,
}

impl<C: Catalog> Service<C> {
    async fn stream(
        &self,
        credentials: &MetadataMap,
        text: &str,
    ) -> Result<datafusion::execution::SendableRecordBatchStream, Status> {
        let relations = self.catalog.relations(credentials)?;
        Ok(self.engine.query(relations, text).await?)
    }
}

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        let text = error.to_string();
        match error {
            Error::Refused(_) => Self::invalid_argument(text),
            Error::TooLong(_) => Self::deadline_exceeded(text),
            Error::TooLarge(_) => Self::resource_exhausted(text),
            Error::Failed(_) => Self::internal(text),
        }
    }
}

#[tonic::async_trait]
impl<C: Catalog> FlightSqlService for Service<C> {
    type FlightService = Self;

    async fn get_flight_info_statement(
        &self,
        query: CommandStatementQuery,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        let schema = self.stream(request.metadata(), &query.query).await?.schema();
        let ticket = TicketStatementQuery { statement_handle: query.query.into_bytes().into() };
        let ticket = Ticket { ticket: ticket.as_any().encode_to_vec().into() };
        let info = FlightInfo {
            schema: encoded(&schema)?,
            flight_descriptor: Some(request.into_inner()),
            endpoint: vec![FlightEndpoint { ticket: Some(ticket), ..FlightEndpoint::default() }],
            total_records: -1,
            total_bytes: -1,
            ..FlightInfo::default()
        };
        Ok(Response::new(info))
    }

    async fn do_get_statement(
        &self,
        ticket: TicketStatementQuery,
        request: Request<Ticket>,
    ) -> Result<Response<<Self as FlightService>::DoGetStream>, Status> {
        let text = std::str::from_utf8(&ticket.statement_handle)
            .map_err(|_| Status::invalid_argument("the ticket is not one that this server gave"))?;
        let batches = self.stream(request.metadata(), text).await?;
        let schema = batches.schema();
        let batches = batches.map_err(|e| FlightError::Tonic(Box::new(Error::from(e).into())));
        let data = FlightDataEncoderBuilder::new().with_schema(schema).build(batches);
        Ok(Response::new(data.map_err(Status::from).boxed()))
    }

    async fn register_sql_info(&self, _id: i32, _result: &SqlInfo) {}
}

#[allow(clippy::result_large_err)]
fn encoded(schema: &Schema) -> Result<bytes::Bytes, Status> {
    let message: IpcMessage = SchemaAsIpc::new(schema, &IpcWriteOptions::default())
        .try_into()
        .map_err(|e: arrow::error::ArrowError| Status::internal(e.to_string()))?;
    Ok(message.0)
}

#[cfg(test)]
mod tests {
    use arrow::{array::AsArray, datatypes::Int64Type};
    use arrow_flight::sql::client::FlightSqlServiceClient;

    use super::*;
    use crate::{config::sql::Settings, store::sql::tests as sql};

    struct One;

    impl Catalog for One {
        fn relations(&self, credentials: &MetadataMap) -> Result<Vec<Relation>, Status> {
            match credentials.get("authorization") {
                Some(key) if key == "Bearer k" => Ok(vec![sql::relation(vec![], &[], &[("a", 4)])]),
                _ => Err(Status::unauthenticated("no key")),
            }
        }
    }

    async fn client() -> FlightSqlServiceClient<tonic::transport::Channel> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let engine = Arc::new(Engine::new(&Settings::default()).unwrap());
        drop(tokio::spawn(axum::serve(listener, router(engine, Arc::new(One))).into_future()));
        let channel = tonic::transport::Endpoint::from_shared(format!("http://{address}")).unwrap();
        FlightSqlServiceClient::new(channel.connect().await.unwrap())
    }

    #[tokio::test]
    async fn a_statement_is_not_answered() {
        let mut client = client().await;
        client.set_token("k".into());
        let info = client.execute("SELECT step_index FROM run_steps".into(), None).await.unwrap();
        let ticket = info.endpoint[0].ticket.clone().unwrap();
        let batches: Vec<_> = client.do_get(ticket).await.unwrap().try_collect().await.unwrap();
        assert_eq!(batches[0].column(0).as_primitive::<Int64Type>().value(0), 4);
    }

    #[tokio::test]
    async fn a_stranger_or_a_write_is_let_in() {
        let mut client = client().await;
        let ask = "SELECT * FROM run_steps";
        assert!(client.execute(ask.into(), None).await.is_err(), "no credential");
        client.set_token("k".into());
        assert!(client.execute("DROP TABLE run_steps".into(), None).await.is_err());
        assert!(client.execute(ask.into(), None).await.is_ok());
    }
}
