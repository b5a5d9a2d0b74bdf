import java.util.Map;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.eclipse.jetty.ee10.servlet.ServletContextHandler;
import org.eclipse.jetty.ee10.servlet.ServletHolder;
import org.eclipse.jetty.http.UriCompliance;
import org.eclipse.jetty.server.HttpConfiguration;
import org.eclipse.jetty.server.HttpConnectionFactory;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;

/** Serves Iceberg's REST protocol for a catalog in an SQLite file: RestCatalog PORT FILE WAREHOUSE. */
public class RestCatalog {
    public static void main(String[] words) throws Exception {
        JdbcCatalog catalog = new JdbcCatalog();
        // The other implementations of FileIO need Hadoop.
        catalog.initialize("rest", Map.of(
            "uri", "jdbc:sqlite:" + words[1],
            "warehouse", words[2],
            "io-impl", "org.apache.iceberg.TestTables$LocalFileIO"));
        ServletContextHandler context = new ServletContextHandler();
        RESTCatalogServlet servlet = new RESTCatalogServlet(new RESTCatalogAdapter(catalog));
        context.addServlet(new ServletHolder(servlet), "/*");
        Server server = new Server();
        // The parts of a namespace are separated by %1F, which Jetty otherwise refuses.
        HttpConfiguration configuration = new HttpConfiguration();
        configuration.setUriCompliance(UriCompliance.UNSAFE);
        context.getServletHandler().setDecodeAmbiguousURIs(true);
        ServerConnector connector = new ServerConnector(server, new HttpConnectionFactory(configuration));
        connector.setHost("127.0.0.1");
        connector.setPort(Integer.parseInt(words[0]));
        server.addConnector(connector);
        server.setHandler(context);
        server.start();
        server.join();
    }
}
